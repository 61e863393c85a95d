//! Whether the kernel's clock follows a time server.

/// Whether the kernel says that its clock is synchronised. When it does not say, it is not.
#[must_use]
pub fn clock_is_synchronised() -> bool {
    // Without a mode nothing is changed, only told.
    let mut state = std::mem::MaybeUninit::<libc::timex>::zeroed();
    #[expect(unsafe_code, reason = "no safe binding exists")]
    // SAFETY: a structure of zeroes is a valid request to change nothing.
    let result = unsafe { libc::adjtimex(state.as_mut_ptr()) };
    #[expect(unsafe_code, reason = "no safe binding exists")]
    // SAFETY: zeroes are a valid value of the structure, whatever the kernel made of them.
    let state = unsafe { state.assume_init() };
    says_synchronised(result, state.status)
}

/// The call's answer has one value for "not synchronised" and the status one bit; either counts.
fn says_synchronised(result: libc::c_int, status: libc::c_int) -> bool {
    result != -1 && result != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0
}

#[cfg(test)]
mod tests {
    use super::says_synchronised;

    #[test]
    fn any_doubt_counts_as_not_synchronised() {
        assert!(says_synchronised(libc::TIME_OK, libc::STA_PLL));
        assert!(says_synchronised(libc::TIME_INS, libc::STA_PLL | libc::STA_INS));
        assert!(!says_synchronised(libc::TIME_ERROR, libc::STA_PLL));
        assert!(!says_synchronised(libc::TIME_OK, libc::STA_UNSYNC));
        assert!(!says_synchronised(-1, 0));
    }
}
