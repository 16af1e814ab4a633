//! Asks the kernel about its clock.

use nix::errno::Errno;

/// Whether the kernel takes its clock for synchronised, as NTP daemons tell it.
///
/// # Errors
///
/// Those of adjtimex(2); a seccomp filter may refuse it.
pub fn is_synchronized() -> Result<bool, Errno> {
    // SAFETY: the structure is made of integers alone, of which 0 is a value.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `clock` outlives the call. Without a mode the kernel changes nothing
    // and fills it in.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    Errno::result(state).map(|state| state != libc::TIME_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that asking needs no right.
    #[test]
    fn anybody_may_ask() {
        assert!(is_synchronized().is_ok());
    }
}
