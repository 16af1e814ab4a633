//! Compares the descriptor tables of threads by kcmp(2): `/proc` does not tell
//! whether threads share one.

use std::cmp::Ordering;

use nix::errno::Errno;

/// `KCMP_FILES` of `linux/kcmp.h`.
const FILES: libc::c_long = 2;

/// Compares the descriptor tables of two threads: equal if they are one and the
/// same, else in an order that has no meaning but stays the same while the machine
/// runs. Since Linux 3.5; takes the right to look into both.
///
/// # Errors
///
/// `ENOSYS` if the kernel was built without it, `ESRCH` for a thread that is gone,
/// `EPERM` without the right.
pub fn compare_files(one: u32, other: u32) -> Result<Ordering, Errno> {
    let (one, other, none) = (libc::c_long::from(one), libc::c_long::from(other), libc::c_long::default());
    // SAFETY: the call takes numbers only and changes nothing.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, FILES, none, none) };
    match Errno::result(result)? {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        // Different, and the order is not known.
        _ => Err(Errno::EOPNOTSUPP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a thread shares with itself and with its process, and
    /// not with a process that does not exist.
    #[test]
    fn own() {
        let own = std::process::id();
        assert_eq!(compare_files(own, own), Ok(Ordering::Equal));
        let tid = || nix::unistd::gettid().as_raw().cast_unsigned();
        let thread = std::thread::spawn(move || compare_files(own, tid()));
        assert_eq!(thread.join().unwrap(), Ok(Ordering::Equal));
        assert_eq!(compare_files(own, u32::MAX >> 1), Err(Errno::ESRCH));
    }
}
