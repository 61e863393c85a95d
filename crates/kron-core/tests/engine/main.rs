//! The engine from outside: frozen decisions, brute force, other implementations, statistics,
//! round trips, hostile input, and that deciding does not allocate.
//!
//! All of it is one binary, which is linked once. `allocation` brings a counting allocator into all of it; that counts for each thread by itself, so it needs no
//! binary of its own. The frozen data and the oracles are beside this directory.

mod allocation;
mod backlog;
mod differential;
mod hostile;
mod round_trip;
mod schedule;
mod statistics;
mod vectors;
