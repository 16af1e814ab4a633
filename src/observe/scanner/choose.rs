//! Which way to see processes works here.

use std::os::fd::AsFd as _;

use nix::errno::Errno;

use super::iterators::Iterators;
use super::proc::ProcScanner;
use super::reader::Reader;
use super::{Glimpse, Scanner};
use crate::observe::Options;
use crate::sys::stat::stat_at;

/// A way to see all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// BPF iterators over processes and their files. Needs root and Linux 5.18
    /// with BTF.
    Iterators,
    /// `/proc`.
    Proc,
}

impl Engine {
    /// What it is called in answers: `iterators` or `proc`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iterators => "iterators",
            Self::Proc => "proc",
        }
    }
}

/// Why processes cannot be seen this way.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF ({0})")]
    NoBtf(String),
    /// The kernel refuses the programs.
    #[error("the kernel refuses to load the iterators ({0})")]
    Load(String),
    /// The object lacks a part: a fault of the build.
    #[error("the program object has no {0}")]
    Object(&'static str),
    /// The kernel does not run a program that it has loaded.
    #[error("the iterators cannot be read ({0})")]
    Read(String),
    /// What they show is not what `/proc` shows.
    #[error("the iterators do not show gpumap as {0} does: another pid or time namespace")]
    OtherNamespace(String),
    /// The proc file system cannot be listed.
    #[error("{0} cannot be listed ({1})")]
    Proc(String, Errno),
}

/// The way that was found.
#[derive(Debug)]
pub struct Choice {
    /// The scanner.
    pub scanner: Box<dyn Scanner>,
    /// Why it is not the iterators, where it is not and nobody asked for that.
    pub refused: Option<String>,
}

/// Begins to see processes the way of `engine`, or the best that works: the
/// iterators if they can be loaded and show gpumap itself as `/proc` does, else
/// `/proc`.
///
/// # Errors
///
/// Why the engine that was asked for does not work, or `/proc` cannot be had.
pub fn start(options: &Options, engine: Option<Engine>) -> Result<Choice, ScanError> {
    let by_proc =
        || -> Result<Box<dyn Scanner>, ScanError> { Ok(Box::new(ProcScanner::new(Reader::new(options)?))) };
    let refused = match engine {
        Some(Engine::Proc) => return Ok(Choice { scanner: by_proc()?, refused: None }),
        Some(Engine::Iterators) => {
            return Ok(Choice { scanner: Box::new(iterators(options)?), refused: None });
        }
        None => match iterators(options) {
            Ok(scanner) => return Ok(Choice { scanner: Box::new(scanner), refused: None }),
            Err(error) => error.to_string(),
        },
    };
    Ok(Choice { scanner: by_proc()?, refused: Some(refused) })
}

/// The iterators, if they and `/proc` agree about this very process: they show
/// no other pid namespace than gpumap's own, and start times without the
/// offset of a time namespace.
fn iterators(options: &Options) -> Result<Iterators, ScanError> {
    let other = || ScanError::OtherNamespace(options.proc.display().to_string());
    let mut reader = Reader::new(options)?;
    let mut own = reader.own().filter(|_| is_own(options)).ok_or_else(other)?;
    let mut scanner = Iterators::load(reader)?;
    let seen = scanner.scan()?.into_iter().find(|glimpse| glimpse.pid == own.pid).ok_or_else(other)?;
    // Other threads open and close files meanwhile.
    own.devices.clone_from(&seen.devices);
    if same(&seen, &own) { Ok(scanner) } else { Err(other()) }
}

/// Equal as far as both know it.
fn same(one: &Glimpse, other: &Glimpse) -> bool {
    let cgroup = one.cgroup.zip(other.cgroup).is_none_or(|(one, other)| one == other);
    *one == Glimpse { cgroup: one.cgroup, ..other.clone() } && cgroup
}

/// Whether the proc file system that is looked at is gpumap's own.
pub(super) fn is_own(options: &Options) -> bool {
    let place = |path: &std::path::Path| {
        let dir = crate::sys::dir::Dir::open(path).ok()?;
        let stat = stat_at(dir.as_fd(), c"").ok()?;
        Some((stat.dev, stat.inode))
    };
    place(&options.proc).is_some_and(|one| Some(one) == place("/proc".as_ref()))
}
