//! krond in the place of cron: system crontabs as they are, run by the real daemon as root.
//!
//! | module | what is looked at |
//! |---|---|
//! | [`running`] | what a command finds: its user, environment, directory, shell and input |
//! | [`files`] | which files count, what is left out of them, and reloads |
//! | [`times`] | zones, minutes, restarts within one and after it |
//!
//! Most of it needs root, because it runs commands as others; what becomes due after a while is
//! shown on a clock of the daemon's own, which needs `libfaketime`.

mod files;
mod running;
mod tabs;
mod times;
