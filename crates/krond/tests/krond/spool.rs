//! Spools inside krond: the binary, real processes, real directories.

mod again;
mod arriving;
mod full_disk;
mod making;
mod recovery;
mod reload;
mod running;
mod site;
mod starting;
mod surface;
mod wrong;
