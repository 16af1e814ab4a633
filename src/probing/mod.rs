//! Where probes are put: the files that processes map, judged and looked at
//! safely, whoever they belong to.
//!
//! A file of root's is probed once, for all processes. One that a user could
//! change is probed for each process in scope apart, so that what it says of
//! itself concerns nobody but who uses it. No file is touched that a user serves
//! (FUSE), and nothing is attached while a process holds the lock of its memory
//! map.
//!
//! What is looked for in a file, and which programs are attached to it, is up to
//! a [`Prober`]: [`crate::watch`] and [`crate::activity`] have one each.

mod budget;
pub mod driver;
mod drivers;
mod file_systems;
mod files;
pub(crate) mod gone;
mod libraries;
mod linker;
mod locks;
mod look;
mod prober;
mod programs;
mod scope;

pub use budget::{EACH, PendingLook, Waiting};
pub use drivers::{InstalledDrivers, installed as installed_drivers};
pub use files::none;
pub use libraries::{Coverage, Libraries};
pub use prober::{FileId, FileRole, FunctionPlace, ProbeTarget, Prober, own_place, places};
pub use programs::{Mode, ProbePrograms, ProgramsSpec};
pub use scope::{ProcessScope, ScopedProcesses};
