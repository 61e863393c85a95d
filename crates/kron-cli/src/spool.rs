//! What the commands about spools share: which spool is meant, its lines of input, what was set
//! aside, and words. Each command itself is a file under `command/spool`.

pub(crate) mod files;
pub(crate) mod input;
pub(crate) mod place;

pub(crate) mod words;
