//! The one place that decides which failures mean "it is not there".
//!
//! An empty place in an answer means that gpumap looked there and it was empty.
//! So a failed call is absence only where the kernel said so; every other failure
//! (no descriptors, no memory, no right, an unexpected end) stays one, and the
//! caller has to report it.

use std::io;

use nix::errno::Errno;

/// Whether a call that failed with `errno` said that what it was asked about does not
/// exist: `ENOENT` (no such name, or the directory was removed), `ESRCH` (no such
/// process), `ENODEV` (a removed cgroup, a device without a driver), `ENXIO` (the
/// device behind a node is gone).
///
/// Ask it of calls alone that can fail for these reasons: an `ENOENT` of a call that
/// was given no name says something else.
pub fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ESRCH | Errno::ENODEV | Errno::ENXIO)
}

/// Tells absence from failure in the result of a call.
pub trait OrAbsent<T, E> {
    /// `None` where the call said that there is nothing ([`is_absence`]).
    ///
    /// # Errors
    ///
    /// Every other failure, as it was.
    fn or_absent(self) -> Result<Option<T>, E>;
}

impl<T> OrAbsent<T, Errno> for Result<T, Errno> {
    fn or_absent(self) -> Result<Option<T>, Errno> {
        match self {
            Ok(there) => Ok(Some(there)),
            Err(errno) if is_absence(errno) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl<T> OrAbsent<T, io::Error> for io::Result<T> {
    fn or_absent(self) -> Result<Option<T>, io::Error> {
        match self {
            Ok(there) => Ok(Some(there)),
            Err(error) if error.raw_os_error().map(Errno::from_raw).is_some_and(is_absence) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that nothing but the kernel's word for it is absence.
    #[test]
    fn only_what_the_kernel_says() {
        for absent in [Errno::ENOENT, Errno::ESRCH, Errno::ENODEV, Errno::ENXIO] {
            assert_eq!(Err::<(), _>(absent).or_absent(), Ok(None));
            assert!(matches!(Err::<(), _>(io::Error::from(absent)).or_absent(), Ok(None)));
        }
        let failures = [
            Errno::EMFILE,
            Errno::ENFILE,
            Errno::ENOMEM,
            Errno::EPERM,
            Errno::EACCES,
            Errno::EIO,
            Errno::EAGAIN,
            Errno::EINTR,
            Errno::ELOOP,
            Errno::ENOTDIR,
            Errno::EINVAL,
            Errno::ENAMETOOLONG,
        ];
        for failure in failures {
            assert_eq!(Err::<(), _>(failure).or_absent(), Err(failure));
            assert!(Err::<(), _>(io::Error::from(failure)).or_absent().is_err());
        }
        assert_eq!(Ok::<_, Errno>(1).or_absent(), Ok(Some(1)));
        assert!(io::Error::other("no errno").raw_os_error().is_none());
    }
}
