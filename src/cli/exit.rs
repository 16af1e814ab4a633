//! Exit codes: they distinguish "no" from "could not ask".

use std::process::ExitCode;

/// The meaning of an exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exit {
    /// 0: yes, allowed, equal, nothing missing.
    #[default]
    Yes,
    /// 1: no: denied, mixed or different; something is left over.
    No,
    /// 2: the question was malformed or gpumap could not work.
    Failed,
    /// 3: the answer is incomplete or unknown.
    Incomplete,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Failed => 2,
            Self::Incomplete => 3,
        }
    }

    /// The worse of two. A malformed question is worst, because more rights do not
    /// help it; then an unknown answer, then a plain no.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Incomplete => 2,
            Self::Failed => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::Exit::{Failed, Incomplete, No, Yes};

    /// Make sure that the order of badness is the documented one.
    #[test]
    fn worst() {
        let order = [Yes, No, Incomplete, Failed];
        for (index, low) in order.into_iter().enumerate() {
            for high in &order[index..] {
                assert_eq!(low.worst(*high), *high);
                assert_eq!(high.worst(low), *high);
            }
        }
        assert_eq!(order.map(super::Exit::code), [0, 1, 3, 2]);
    }
}
