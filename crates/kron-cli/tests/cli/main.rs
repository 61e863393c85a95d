//! The real `kron`, from outside.
//!
//! | module | what is looked at |
//! |---|---|
//! | [`command`] | what it prints and answers, how it behaves towards shells, hostile input |
//! | [`daemon`] | `kron` and a real `krond`, talking over the real socket |
//! | [`guide`] | the guide for migrating, whose output is real |
//! | [`readme`] | the README's tour, whose output is real |

mod command;
mod daemon;
mod guide;
mod readme;
