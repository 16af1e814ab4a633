//! Lists every process of the node without looking into its memory: who it is, its
//! environment at exec, and the devices that it has open.
//!
//! The kernel offers two ways with the same answer: `/proc`, some twenty system
//! calls for each process, and BPF iterators (root, Linux 5.8), one system call for
//! a hundred processes. gpumap tries which of them works.

mod interface;
mod iterators;
mod proc;

use iterators::Iterators;
use proc::{HelperReader, ProcScanner};

use super::options::Options;
use super::procfile::is_own;
use crate::sys::heap;
pub use interface::{ProcessSummary, ScanContents, ScanError, ScanMethod, Scanner};

/// Reads bytes as the records of the iterators, for the fuzz targets.
#[cfg(fuzzing)]
pub(super) fn fuzzing(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((_, size)) = iterators::task(rest) {
        rest = rest.get(size.max(1)..).unwrap_or_default();
    }
    let mut rest = bytes;
    while let Some((_, size)) = iterators::open(rest) {
        rest = rest.get(size.max(1)..).unwrap_or_default();
    }
}

/// The way that was chosen.
#[derive(Debug)]
pub struct ChosenScanner {
    /// The scanner.
    pub scanner: Box<dyn Scanner>,
    /// Why the iterators are not used, if the caller did not choose `/proc`.
    pub refused: Option<String>,
}

/// Starts a scanner: the one that `engine` names or the best that works. The
/// iterators are used if they load and show gpumap itself as `/proc` does.
///
/// # Errors
///
/// Why the named way does not work, or why `/proc` cannot be read.
pub fn start(options: &Options, engine: Option<ScanMethod>) -> Result<ChosenScanner, ScanError> {
    start_with(options, engine, ScanContents::Environments).map(|(chosen, _)| chosen)
}

/// The same with the contents that are wanted, and with the scan that was made
/// meanwhile, if one was.
///
/// # Errors
///
/// As [`start`].
pub(in crate::observe) fn start_with(
    options: &Options,
    engine: Option<ScanMethod>,
    contents: ScanContents,
) -> Result<(ChosenScanner, Option<Vec<ProcessSummary>>), ScanError> {
    let mut refused = None;
    if engine != Some(ScanMethod::Proc) {
        match iterators(options, contents) {
            Ok((scanner, first)) => {
                return Ok((ChosenScanner { scanner: Box::new(scanner), refused: None }, Some(first)));
            }
            Err(error) if engine.is_some() => return Err(error),
            Err(error) => refused = Some(error.to_string()),
        }
    }
    let scanner = ProcScanner::new(HelperReader::new(options)?);
    Ok((ChosenScanner { scanner: Box::new(scanner), refused }, None))
}

/// The iterators, if they and `/proc` agree about this very process. They do not
/// if `/proc` belongs to another pid namespace, or if a time namespace shifts
/// start times. With their first scan.
fn iterators(
    options: &Options,
    contents: ScanContents,
) -> Result<(Iterators, Vec<ProcessSummary>), ScanError> {
    let other = || ScanError::OtherNamespace(options.proc.display().to_string());
    let mut reader = HelperReader::new(options)?;
    let mut own = reader.own().filter(|_| is_own(&options.proc)).ok_or_else(other)?;
    let mut scanner = Iterators::load(reader, contents)?;
    heap::give_back();
    let first = scanner.scan()?;
    let seen = first.iter().find(|process| process.pid == own.pid).ok_or_else(other)?;
    // Other threads open and close files in between.
    own.devices.clone_from(&seen.devices);
    if contents == ScanContents::DevicesOnly {
        own.at_exec.clone_from(&seen.at_exec);
    }
    if same(seen, &own) { Ok((scanner, first)) } else { Err(other()) }
}

/// Whether both are equal in everything that both know.
fn same(one: &ProcessSummary, other: &ProcessSummary) -> bool {
    let cgroup = one.cgroup.zip(other.cgroup).is_none_or(|(one, other)| one == other);
    *one == ProcessSummary { cgroup: one.cgroup, ..other.clone() } && cgroup
}
