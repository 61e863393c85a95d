//! The real `kron`, from outside: what it prints, what it answers to programs, how it behaves
//! towards shells and machines, and what it does with hostile input.

mod answers;
mod hostile;
mod import;
mod kron;
mod manners;
mod plugin;
mod scratch;
mod snapshots;
mod spool;
