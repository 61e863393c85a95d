//! The handlers, one file for each thing that they are about.

pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod groups;
pub(crate) mod jobs;
pub(crate) mod queue;
pub(crate) mod runs;
