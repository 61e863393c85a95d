//! `kron` and a real `krond`, each a process of its own, talking over the real socket.

mod access;
mod commands;
mod doctor;
mod krond;
mod mending;
mod past;
mod queue;
mod runs;
mod socket;
mod spool;
mod state;
mod terminal;
mod top;
mod up;
