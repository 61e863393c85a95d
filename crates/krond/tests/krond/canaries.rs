//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_supervisor_forked_from_the_daemon_is_noticed: ForkedFromTheDaemon,
    a_mark_that_moves_back_is_noticed: MarkMovesBack,
    a_start_that_is_recorded_later_is_noticed: RecordAfterStart,
    a_supervisor_that_dies_with_the_daemon_is_noticed: SupervisedByTheDaemon,
    definitions_that_everybody_may_write_are_noticed: EverybodyWritesDefinitions,
    readers_that_take_every_slot_are_noticed: ReadersTakeEverySlot,
    a_start_after_a_failed_write_is_noticed: StartAfterAFailedWrite,
    a_queue_that_acknowledges_before_it_records_is_noticed: QueueAcknowledgedBeforeRecorded,
    a_queue_that_adopts_nothing_is_noticed: QueueAdoptsNothing,
    a_queue_that_answers_before_its_commit_is_noticed: QueueAnswersBeforeCommit,
    a_queue_that_releases_before_it_records_is_noticed: QueueLetGoBeforeRecorded,
    a_period_enqueued_without_a_key_is_noticed: QueuePeriodWithoutAKey,
    a_spool_that_acknowledges_before_it_records_is_noticed: SpoolAcknowledgedBeforeRecorded,
    a_spool_that_adopts_nothing_is_noticed: SpoolAdoptsNothing,
    a_task_deleted_before_it_is_placed_is_noticed: SpoolDeletedBeforePlaced,
    a_spool_that_releases_before_it_records_is_noticed: SpoolLetGoBeforeRecorded,
}
