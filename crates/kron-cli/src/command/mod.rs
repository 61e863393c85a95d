//! One command a file.

pub(crate) mod completions;
pub(crate) mod decide;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod forecast;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod next;
pub(crate) mod replay;
