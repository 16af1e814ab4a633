//! The functions that are watched.

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
