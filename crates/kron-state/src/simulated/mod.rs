//! File systems that are not there: a disk in memory that can lose its power, and a directory
//! that fails on request.
//!
//! Tests and simulations run the very same store over them.

mod disk;
mod faulty;

pub use disk::{Disk, DiskFile};
pub use faulty::{Fault, Faulty};
