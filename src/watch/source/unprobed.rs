//! Drivers' libraries that cannot be probed: what a driver does there is not seen as it
//! happens.

use std::collections::BTreeMap;

use crate::probing::{FileRole, none};

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

    /// Make sure that a refused library is told, of the node and of a process, and one
    /// that is no driver's is not.
    #[test]
    fn told() {
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
