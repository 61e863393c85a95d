//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_wrong_file_that_is_deleted_is_noticed: SpoolDeletesWhatIsWrong,
}
