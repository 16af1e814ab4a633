//! Makes system calls again that a signal interrupted or that had to be put off.

use nix::errno::Errno;

/// How often a call is made: nothing that a user does keeps gpumap here.
const TRIES: usize = 16;

/// The result of a call, which is made again where it failed with `EINTR` (a signal came
/// first) or `EAGAIN` (something was just being changed), some times and without waiting.
///
/// # Errors
///
/// Those of the call; these two if they persist.
pub fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..TRIES {
        match call() {
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            result => return result,
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that both errors are passed over, that others are not, and that it ends.
    #[test]
    fn again() {
        let mut results = vec![Ok(7), Err(Errno::EAGAIN), Err(Errno::EINTR)];
        assert_eq!(retried(|| results.pop().unwrap()), Ok(7));
        let mut calls = 0;
        let mut count = |errno| {
            calls += 1;
            Err::<(), _>(errno)
        };
        assert_eq!(retried(|| count(Errno::ENOMEM)), Err(Errno::ENOMEM));
        assert_eq!(retried(|| count(Errno::EINTR)), Err(Errno::EINTR));
        assert_eq!(calls, 1 + TRIES);
    }
}
