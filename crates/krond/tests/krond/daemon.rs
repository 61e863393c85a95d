//! krond as it really is: the binary, real processes, real files, real time.

mod burst;
mod concurrency;
mod failures;
mod hooks;
mod metrics;
mod recovery;
mod reload;
mod runs;
mod socket;
mod starting;
mod stopping;
mod trust;
mod waiting;
