//! Whether threads share their open files, by kcmp(2): `/proc` does not tell.

use nix::errno::Errno;

/// `KCMP_FILES` of `linux/kcmp.h`.
const FILES: libc::c_int = 2;

/// Whether two threads have one and the same table of descriptors. Since Linux
/// 3.5; takes the right to look into both.
///
/// # Errors
///
/// `ENOSYS` where the kernel was built without it, `ESRCH` for a thread that is
/// gone, `EPERM` without the right.
pub fn share_files(one: u32, other: u32) -> Result<bool, Errno> {
    // SAFETY: the call takes numbers only and changes nothing.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, FILES, 0, 0) };
    Errno::result(result).map(|order| order == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a thread shares with itself and with its process, and
    /// not with a process that does not exist.
    #[test]
    fn own() {
        let own = std::process::id();
        assert_eq!(share_files(own, own), Ok(true));
        let tid = || nix::unistd::gettid().as_raw().cast_unsigned();
        assert_eq!(std::thread::spawn(move || share_files(own, tid())).join().unwrap(), Ok(true));
        assert_eq!(share_files(own, u32::MAX >> 1), Err(Errno::ESRCH));
    }
}
