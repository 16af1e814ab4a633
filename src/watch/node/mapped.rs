//! Which drivers' libraries a process maps.

use std::path::Path;

use nix::errno::Errno;

use crate::observe::processes::mappings::mappings;
use crate::probing::driver::{Driver, Drivers, driver};
use crate::sys::dir::{Dir, read_all};

/// Bytes that are read of a process's map.
const LIMIT: usize = 4 << 20;

/// The drivers whose libraries a process maps now; `None` if it is gone. What it
/// does not map it has not initialised. One that maps too many files to look
/// through may map any.
pub(super) fn drivers(proc: &Path, pid: u32) -> Option<Drivers> {
    let mut text = Vec::new();
    let file = Dir::open(&proc.join(pid.to_string())).ok()?.open_file(c"maps").ok()?;
    match read_all(&file, &mut text, LIMIT) {
        Ok(()) if text.is_empty() => return None,
        Ok(()) => {}
        Err(Errno::EFBIG) => return Some(Drivers::of(&[Driver::Cuda, Driver::Hip, Driver::Hsa])),
        Err(_) => return None,
    }
    let found = mappings(&text).filter_map(|mapping| driver(mapping.name()));
    Some(found.fold(Drivers::default(), Drivers::and))
}
