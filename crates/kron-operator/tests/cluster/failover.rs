//! Leaders that die, stop, wake up, are cut off and lose answers, with another replica beside them:
//! every period has one Job, and none that is current is missed.
//!
//! | module | what it is |
//! |---|---|
//! | [`storm`] | all of it at random under load, five times, ten times or as often as one likes |
//! | [`takeover`] | how long it takes until another leads |
//! | [`wakes`] | a leader that was stopped, or cut off from its lease, and what it does then |
//! | [`lost_answers`] | requests that are carried out although nobody hears of it |
//! | [`replica`], [`load`] | operators side by side, and what they have to do |
//! | [`verdict`] | what became of it, from the audit log |
//!
//! The tests look at logs of operators to know when to go on, never to judge.

mod load;
mod lost_answers;
mod replica;
mod storm;
mod takeover;
mod verdict;
mod wakes;

use jiff::Timestamp;

/// The wall clock, which the audit log follows, too.
fn wall() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "compared with the times in the audit log")]
    Timestamp::now()
}

/// Says what was measured, or what is needed to have a run again.
fn say(text: &str) {
    #[expect(clippy::print_stdout, reason = "captured with the output of the test")]
    {
        println!("{text}");
    }
}
