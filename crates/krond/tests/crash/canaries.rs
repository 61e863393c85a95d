//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_supervisor_forked_from_the_daemon_is_noticed: ForkedFromTheDaemon,
    a_mark_that_moves_back_is_noticed: MarkMovesBack,
    a_start_that_is_recorded_later_is_noticed: RecordAfterStart,
    a_supervisor_that_dies_with_the_daemon_is_noticed: SupervisedByTheDaemon,
}
