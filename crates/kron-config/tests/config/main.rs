//! Job definitions of every format: what is read, what is refused and in which words, what the
//! files of real machines become, and that no text takes long.
//!
//! All of it is one binary, which is linked once. `corpus_files` and `loading` are what the other modules share; texts and corpus are beside this directory.

mod corpus;
mod corpus_files;
mod crontab;
mod daemon;
mod files;
mod hooks;
mod hostile;
mod import;
mod krontab;
mod lint;
mod loading;
mod queue;
mod spool;
mod toml;
