//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    a_queue_that_acknowledges_before_it_records_is_noticed: QueueAcknowledgedBeforeRecorded,
    a_queue_that_adopts_nothing_is_noticed: QueueAdoptsNothing,
    a_queue_that_answers_before_its_commit_is_noticed: QueueAnswersBeforeCommit,
    a_queue_that_releases_before_it_records_is_noticed: QueueLetGoBeforeRecorded,
    a_period_enqueued_without_a_key_is_noticed: QueuePeriodWithoutAKey,
}
