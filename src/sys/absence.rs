//! The one place that decides which failures mean "it is not there".
//!
//! An empty place in an answer means that gpumap looked there and it was empty.
//! So a failed call is absence only where the kernel said so; every other failure
//! (no descriptors, no memory, no right, an unexpected end) stays one, and the
//! caller has to report it.

use std::io;

use nix::errno::Errno;

/// Whether a call that was given a name said that there is no such name, or that its
/// directory was removed: `ENOENT`.
///
/// Ask it of calls alone that can fail for this reason: an `ENOENT` of a call that was
/// given no name says something else.
pub fn is_absence(errno: Errno) -> bool {
    errno == Errno::ENOENT
}

/// Whether a call that was made about a process, or about one of its files in `/proc`,
/// said that it is not there any more: `ENOENT`, or `ESRCH` (it was opened before).
pub fn is_end(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ESRCH)
}

/// Whether a call that was made about a cgroup, or about a device in `/sys`, said that it
/// was removed: `ENOENT`, or `ENODEV` (it was opened before; `kernfs_get_active` in
/// `fs/kernfs`).
pub fn is_removal(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENODEV)
}

/// The error number of a call about what is open already: that is there, so none says that
/// it is not.
pub fn of_open(errno: Errno) -> Errno {
    if is_end(errno) || is_removal(errno) { Errno::EIO } else { errno }
}

/// Tells absence from failure in the result of a call.
pub trait OrAbsent<T, E>: Sized {
    /// `None` where the call failed with an error number that `says_so`.
    ///
    /// # Errors
    ///
    /// Every other failure, as it was.
    fn unless(self, says_so: fn(Errno) -> bool) -> Result<Option<T>, E>;

    /// `None` where there is no such name ([`is_absence`]).
    ///
    /// # Errors
    ///
    /// Every other failure, as it was.
    fn or_absent(self) -> Result<Option<T>, E> {
        self.unless(is_absence)
    }

    /// `None` where the process is gone ([`is_end`]).
    ///
    /// # Errors
    ///
    /// Every other failure, as it was.
    fn or_ended(self) -> Result<Option<T>, E> {
        self.unless(is_end)
    }

    /// `None` where the cgroup or the device in `/sys` is gone ([`is_removal`]).
    ///
    /// # Errors
    ///
    /// Every other failure, as it was.
    fn or_removed(self) -> Result<Option<T>, E> {
        self.unless(is_removal)
    }
}

impl<T> OrAbsent<T, Errno> for Result<T, Errno> {
    fn unless(self, says_so: fn(Errno) -> bool) -> Result<Option<T>, Errno> {
        match self {
            Ok(there) => Ok(Some(there)),
            Err(errno) if says_so(errno) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl<T> OrAbsent<T, io::Error> for io::Result<T> {
    fn unless(self, says_so: fn(Errno) -> bool) -> Result<Option<T>, io::Error> {
        match self {
            Ok(there) => Ok(Some(there)),
            Err(error) if error.raw_os_error().map(Errno::from_raw).is_some_and(says_so) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that each number is absence of what it can be said of, and of nothing else.
    #[test]
    fn only_what_the_kernel_says() {
        let said = |errno| {
            let result = || Err::<(), Errno>(errno);
            let none = [result().or_absent(), result().or_ended(), result().or_removed()];
            let same = [
                Err::<(), _>(io::Error::from(errno)).or_absent().is_ok(),
                Err::<(), _>(io::Error::from(errno)).or_ended().is_ok(),
                Err::<(), _>(io::Error::from(errno)).or_removed().is_ok(),
            ];
            let said = none.map(|none| none == Ok(None));
            assert_eq!(said, same, "{errno}");
            said
        };
        assert_eq!(said(Errno::ENOENT), [true; 3]);
        assert_eq!(said(Errno::ESRCH), [false, true, false]);
        assert_eq!(said(Errno::ENODEV), [false, false, true]);
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
            Errno::ENXIO,
            Errno::ESTALE,
            Errno::ENOSYS,
        ];
        for failure in failures {
            assert_eq!(said(failure), [false; 3], "{failure}");
        }
        assert_eq!(Ok::<_, Errno>(1).or_absent(), Ok(Some(1)));
        assert_eq!([Errno::ESRCH, Errno::EMFILE].map(of_open), [Errno::EIO, Errno::EMFILE]);
        assert!(io::Error::other("no errno").raw_os_error().is_none());
    }
}
