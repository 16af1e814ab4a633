//! The functions that are watched, and the kinds of probes that can watch them.

/// How functions are watched, the cheapest first. No program of either kind
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

/// A function of a library, and the programs at its entry and return.
#[derive(Debug)]
pub(super) struct Probe {
    /// The function.
    pub(super) function: &'static str,
    /// The kind of its records, of `enum kind` in `bpf/gpumap.h`; `None` if a
    /// session does not serve it.
    pub(super) kind: Option<u64>,
    pub(super) entry: Option<&'static str>,
    pub(super) exit: &'static str,
}

/// Functions of the C library.
pub(super) const ENVIRON: [Probe; 4] = [
    environ("setenv", 1, "enter_setenv"),
    environ("putenv", 2, "enter_putenv"),
    environ("unsetenv", 3, "enter_unsetenv"),
    environ("clearenv", 4, "enter_clearenv"),
];

/// Functions of drivers' libraries.
pub(super) const DRIVERS: [Probe; 3] = [
    driver("cuInit", "leave_cu_init"),
    driver("hipInit", "leave_hip_init"),
    driver("hsa_init", "leave_hsa_init"),
];

const fn environ(function: &'static str, kind: u64, entry: &'static str) -> Probe {
    Probe { function, kind: Some(kind), entry: Some(entry), exit: "leave_any" }
}

const fn driver(function: &'static str, exit: &'static str) -> Probe {
    Probe { function, kind: None, entry: None, exit }
}
