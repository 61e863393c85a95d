//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_directory_that_is_not_synced_is_noticed: NoDirectoryFsync,
}
