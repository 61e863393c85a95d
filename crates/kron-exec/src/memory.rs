//! Memory that was used once and is not needed again.
//!
//! The allocator of the GNU C library keeps what is freed, and the more the larger it was. That is
//! well for most programs. A daemon that loads many jobs and then sleeps should not keep it.

/// What is allocated in one piece of this size or more is given back when it is freed.
#[cfg(target_env = "gnu")]
const PIECE_BYTES: libc::c_int = 256 * 1024;
/// The allocator keeps no more than this at the end of what it has.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 1024 * 1024;

/// Lets the allocator keep little from now on, whatever is freed.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, PIECE_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_BYTES)]
    {
        #[expect(unsafe_code, reason = "no safe binding exists")]
        // SAFETY: sets a number of the allocator's own; one it does not take changes nothing.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// Returns to the system what was freed and the allocator keeps for later. It looks at all memory
/// there is, so it is for after something large, such as loading many jobs.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no safe binding exists")]
    // SAFETY: touches nothing but memory that the allocator keeps for later.
    unsafe {
        libc::malloc_trim(0);
    }
}
