//! Sabotage that these tests must notice: one canary, one test that fails because of it.

kron_canary::canary_tests! {
    definitions_that_everybody_may_write_are_noticed: EverybodyWritesDefinitions,
    readers_that_take_every_slot_are_noticed: ReadersTakeEverySlot,
}
