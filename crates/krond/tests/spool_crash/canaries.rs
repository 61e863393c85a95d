//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_spool_that_acknowledges_before_it_records_is_noticed: SpoolAcknowledgedBeforeRecorded,
    a_spool_that_adopts_nothing_is_noticed: SpoolAdoptsNothing,
    a_task_deleted_before_it_is_placed_is_noticed: SpoolDeletedBeforePlaced,
    a_spool_that_releases_before_it_records_is_noticed: SpoolLetGoBeforeRecorded,
}
