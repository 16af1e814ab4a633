//! Which drivers' libraries a process maps.

use std::path::Path;

use crate::observe::processes::mappings::mappings;
use crate::probing::driver::{Driver, Drivers, driver};
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::{Dir, read_all};

/// Bytes that are read of a process's map.
const LIMIT: usize = 4 << 20;

/// The drivers whose libraries a process maps now; `None` if it is gone. What it
/// does not map it has not initialised. One whose map cannot be read, or has too many
/// files to look through, may map any.
pub(super) fn drivers(proc: &Path, pid: u32) -> Option<Drivers> {
    let mut text = Vec::new();
    let file = Dir::open(&proc.join(pid.to_string())).and_then(|dir| dir.open_file(c"maps"));
    match file.and_then(|file| read_all(&file, &mut text, LIMIT)).or_absent() {
        Ok(Some(())) if !text.is_empty() => {}
        Ok(_) => return None,
        // It may map any of them.
        Err(_) => return Some(Drivers::of(&[Driver::Cuda, Driver::Hip, Driver::Hsa])),
    }
    let found = mappings(&text).filter_map(|mapping| driver(mapping.name()));
    Some(found.fold(Drivers::default(), Drivers::and))
}
