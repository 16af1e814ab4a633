//! The interface to those who attach programs: a [`Prober`] says what is looked for in a
//! file and what is attached to it.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use crate::loader::AttachedProbes;
use crate::sys::window::Windowed;

/// Which file it is among those that exist.
pub type FileId = ((u32, u32), u64);

/// What a file is to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// A driver's library, by its name.
    Driver,
    /// A library that stands before a driver, by its name (`libvgpu.so`,
    /// `libsoftmig.so`).
    Interceptor,
    /// The C library, by its name.
    CLibrary,
    /// The executable of a process that maps no C library.
    Executable,
}

/// Where probes are put.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTarget<'a> {
    /// The file, held open: a path below `/proc/self/fd`.
    pub path: &'a Path,
    /// Which file it is.
    pub id: FileId,
    /// Its name, for display: a user may have chosen it.
    pub shown: &'a [u8],
    /// The only process that gets the probes; `None`: every one.
    pub pid: Option<u32>,
}

/// Puts probes into files.
pub trait Prober {
    /// A place in a file, and what is put there.
    type Point: Clone + Debug;

    /// Whether C libraries, and executables without one, are looked at too.
    const C_LIBRARIES: bool;
    /// Whether only processes are looked at that have a library before a driver, and
    /// in these that library and the driver's.
    const INTERCEPTION: bool = false;
    /// How long a file stays probed that no process uses.
    const UNUSED: Duration;

    /// Finds the places in a file. None: the file is none that is probed.
    ///
    /// # Errors
    ///
    /// Why it cannot be probed.
    fn find(
        &mut self,
        file: Windowed,
        kind: FileRole,
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<Self::Point>, String>;

    /// Attaches the programs.
    ///
    /// # Errors
    ///
    /// Why the kernel does not.
    fn attach(
        &mut self,
        places: &[Self::Point],
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<AttachedProbes>, String>;

    /// A driver's library of a process is not probed, for this reason.
    fn refused(&mut self, _shown: &[u8], _pid: Option<u32>, _why: &str) {}

    /// The probes that a file has for all are taken out.
    fn released(&mut self, _id: FileId) {}
}
