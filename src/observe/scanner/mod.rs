//! Every process of the node, as far as it can be seen without looking into
//! its memory: who it is, its environment at exec, the devices it has open.
//!
//! The kernel gives that in two ways with one answer: `/proc`, some twenty
//! system calls for each process, and BPF iterators (root, Linux 5.8), a
//! system call for a hundred of them. Which works is found out by trying.

mod choose;
mod environment_cache;
mod interface;
mod iterators;
mod open_files;
mod proc;
mod proc_entry;
mod reader;
mod record;

pub use choose::{ChosenScanner, start};
pub use interface::{ProcessSummary, ScanError, ScanMethod, Scanner};

/// Reads bytes as the records of the iterators, for the fuzz targets.
#[cfg(fuzzing)]
pub(super) fn fuzzing(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((_, size)) = record::task(rest) {
        rest = rest.get(size.max(1)..).unwrap_or_default();
    }
    let mut rest = bytes;
    while let Some((_, size)) = record::open(rest) {
        rest = rest.get(size.max(1)..).unwrap_or_default();
    }
}
