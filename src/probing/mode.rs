//! The kinds of probes.

/// How functions are probed, the cheapest first. No program of either kind
/// sleeps: none makes the kernel wait for a page of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One program for entry and return; the return is seen only of calls that
    /// matter. Since Linux 6.13.
    Session,
    /// A program at each entry and one at each return. Since Linux 5.8.
    Pair,
}

impl Mode {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Session, Self::Pair];

    /// As the `engines` of the start event have it.
    pub fn engine(self) -> &'static str {
        match self {
            Self::Session => "uprobe.session",
            Self::Pair => "uprobe",
        }
    }

    /// The mode of this name: `session`, or `pair` (also called `plain`, from
    /// when there were pairs that sleep).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "session" => Some(Self::Session),
            "pair" | "plain" => Some(Self::Pair),
            _ => None,
        }
    }
}
