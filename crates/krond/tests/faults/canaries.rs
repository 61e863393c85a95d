//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_start_after_a_failed_write_is_noticed: StartAfterAFailedWrite,
}
