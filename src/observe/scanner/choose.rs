//! Chooses the way to list processes that works here.

use super::interface::{ProcessSummary, ScanError, ScanMethod, Scanner};
use super::iterators::Iterators;
use super::proc::ProcScanner;
use super::reader::Reader;
use crate::observe::options::Options;
use crate::observe::processes::procfile::is_own;
use crate::sys::heap;

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
    let by_proc =
        || -> Result<Box<dyn Scanner>, ScanError> { Ok(Box::new(ProcScanner::new(Reader::new(options)?))) };
    let refused = match engine {
        Some(ScanMethod::Proc) => return Ok(ChosenScanner { scanner: by_proc()?, refused: None }),
        Some(ScanMethod::Iterators) => {
            return Ok(ChosenScanner { scanner: Box::new(iterators(options)?), refused: None });
        }
        None => match iterators(options) {
            Ok(scanner) => return Ok(ChosenScanner { scanner: Box::new(scanner), refused: None }),
            Err(error) => error.to_string(),
        },
    };
    Ok(ChosenScanner { scanner: by_proc()?, refused: Some(refused) })
}

/// The iterators, if they and `/proc` agree about this very process. They do not
/// if `/proc` belongs to another pid namespace, or if a time namespace shifts
/// start times.
fn iterators(options: &Options) -> Result<Iterators, ScanError> {
    let other = || ScanError::OtherNamespace(options.proc.display().to_string());
    let mut reader = Reader::new(options)?;
    let mut own = reader.own().filter(|_| is_own(&options.proc)).ok_or_else(other)?;
    let mut scanner = Iterators::load(reader)?;
    heap::give_back();
    let seen = scanner.scan()?.into_iter().find(|process| process.pid == own.pid).ok_or_else(other)?;
    // Other threads open and close files in between.
    own.devices.clone_from(&seen.devices);
    if same(&seen, &own) { Ok(scanner) } else { Err(other()) }
}

/// Whether both are equal in everything that both know.
fn same(one: &ProcessSummary, other: &ProcessSummary) -> bool {
    let cgroup = one.cgroup.zip(other.cgroup).is_none_or(|(one, other)| one == other);
    *one == ProcessSummary { cgroup: one.cgroup, ..other.clone() } && cgroup
}
