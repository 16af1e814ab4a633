//! Lists every process of the node without looking into its memory: who it is, its
//! environment at exec, and the devices that it has open.
//!
//! The kernel offers two ways with the same answer: `/proc`, some twenty system
//! calls for each process, and BPF iterators (root, Linux 5.8), one system call for
//! a hundred processes. gpumap tries which of them works.

mod choose;
mod interface;
mod iterators;
mod proc;
mod record;

pub(super) use choose::start_with;
pub use choose::{ChosenScanner, start};
pub use interface::{ProcessSummary, ScanContents, ScanError, ScanMethod, Scanner};

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
