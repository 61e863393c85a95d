//! One command a file.

pub(crate) mod clock;
pub(crate) mod completions;
pub(crate) mod decide;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod forecast;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod lint;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod next;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod suspend;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod why;
