//! Calls again what the kernel asks to call again.

use std::io;

use nix::errno::Errno;

/// How often a call is made at most: a kernel or filter that always says `EINTR` or
/// `EAGAIN` is a failure then, and no loop.
const TRIES: usize = 16;

/// An error that may say: call again.
pub trait MayRepeat {
    /// Whether the call was interrupted (`EINTR`), or may work at another try (`EAGAIN`).
    fn says_again(&self) -> bool;
}

impl MayRepeat for Errno {
    fn says_again(&self) -> bool {
        matches!(self, Self::EINTR | Self::EAGAIN)
    }
}

impl MayRepeat for io::Error {
    fn says_again(&self) -> bool {
        self.raw_os_error().map(Errno::from_raw).is_some_and(|errno| errno.says_again())
    }
}

/// The result of a call that is made again as long as it says so.
///
/// # Errors
///
/// Those of the call; `EINTR` or `EAGAIN` where it said so every time.
pub fn again<T, E: MayRepeat>(mut call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        match call() {
            Err(error) if error.says_again() => {}
            other => return other,
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a call is made again for these two reasons alone, and not for ever.
    #[test]
    fn retried() {
        let mut answers = [Err(Errno::EINTR), Err(Errno::EAGAIN), Ok(7)].into_iter();
        assert_eq!(again(|| answers.next().unwrap()), Ok(7));
        let mut answers = [Err::<(), _>(Errno::EMFILE), Ok(())].into_iter();
        assert_eq!(again(|| answers.next().unwrap()), Err(Errno::EMFILE));
        let mut calls = 0;
        let call = || {
            calls += 1;
            Err::<(), _>(Errno::EAGAIN)
        };
        assert_eq!(again(call), Err(Errno::EAGAIN));
        assert_eq!(calls, TRIES);
        assert!(io::Error::from(Errno::EINTR).says_again() && !io::Error::other("x").says_again());
    }
}
