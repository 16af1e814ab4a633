//! Why processes cannot be seen.

use nix::errno::Errno;

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
