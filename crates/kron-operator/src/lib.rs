//! KronJobs on Kubernetes: one Job per period, across restarts and leader changes.
//!
//! The resource and the planning are pure and here for every tool; what talks to an API server
//! comes with the feature `controller`.
//!
//! | module | what it is |
//! |---|---|
//! | [`resource`] | the `KronJob`: spec, status, schema, and the way to the engine |
//! | [`plan`](mod@plan) | a KronJob, its Jobs and the time → what to do next |
//! | [`job`] | the Job of a period |
//! | `controller` | watches, the ordered queue, requests |
//! | `lease` | leader election |
//! | `serve`, `metrics`, `log` | what others see of it |

#[cfg(feature = "controller")]
mod controller;
#[cfg(feature = "controller")]
mod fault;
pub mod job;
#[cfg(feature = "controller")]
mod lease;
#[cfg(feature = "controller")]
mod log;
#[cfg(feature = "controller")]
mod metrics;
#[cfg(feature = "controller")]
mod options;
pub mod plan;
pub mod resource;
#[cfg(feature = "controller")]
mod run;
#[cfg(feature = "controller")]
mod serve;

#[cfg(feature = "controller")]
pub use run::{crd_yaml, main_with};
