//! The functions that are watched: those that change the environment and those that
//! initialise a driver; and drivers' libraries that cannot be probed: what a driver does there
//! is not seen as it happens.

use std::collections::BTreeMap;

use crate::probing::{FileRole, none};

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

/// Libraries that are kept: a node has some dozens.
const MOST: usize = 64;

/// Libraries, and why they cannot be probed.
#[derive(Debug, Default)]
pub(super) struct Unprobed {
    installed: BTreeMap<Vec<u8>, String>,
    of_process: Option<String>,
}

impl Unprobed {
    /// Keeps a library of the node, or of the process that is looked at. One that has none
    /// of the functions is no driver's.
    pub(super) fn add(&mut self, shown: &[u8], pid: Option<u32>, why: &str) {
        if why == none(FileRole::Driver) {
            return;
        }
        if pid.is_some() {
            let shown = String::from_utf8_lossy(shown);
            self.of_process = Some(format!("its driver's library {shown} is not watched: {why}"));
        } else if self.installed.len() < MOST {
            self.installed.insert(shown.to_vec(), why.to_owned());
        }
    }

    /// Why a driver's calls are not seen in the process that was looked at last.
    pub(super) fn take(&mut self) -> Option<String> {
        self.of_process.take()
    }

    /// A sentence for each library of the node.
    pub(super) fn not_seen(&self) -> impl Iterator<Item = String> {
        self.installed.iter().map(|(library, why)| {
            let library = String::from_utf8_lossy(library);
            format!("that a process initialises {library} is not seen: {why}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a refused library is reported, of the node and of a process, and one
    /// that is no driver's is not.
    #[test]
    fn reported() {
        let mut unprobed = Unprobed::default();
        unprobed.add(b"/lib/libcuda.so.1", None, none(FileRole::Driver));
        assert!(unprobed.not_seen().next().is_none() && unprobed.take().is_none());
        unprobed.add(b"/lib/libcuda.so.1", None, "refused");
        unprobed.add(b"/srv/libcuda.so.1", Some(7), "too large");
        let sentences: Vec<String> = unprobed.not_seen().collect();
        assert!(sentences.len() == 1 && sentences[0].contains("/lib/libcuda.so.1"), "{sentences:?}");
        let why = unprobed.take().unwrap();
        assert!(why.contains("/srv/libcuda.so.1") && why.ends_with("too large") && unprobed.take().is_none());
        (0..100_u8).for_each(|name| unprobed.add(&[name], None, "refused"));
        assert_eq!(unprobed.not_seen().count(), MOST);
    }
}
