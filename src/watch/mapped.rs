//! Whether a process maps a driver's library.

use std::path::Path;

use crate::observe::process::maps::mappings;
use crate::sys::dir::{Dir, read_all};

/// Bytes that are read of a process's map.
const LIMIT: usize = 4 << 20;

/// Whether a process maps a driver's library now; `None` if that cannot be
/// seen. One that does not has not initialised it.
pub(super) fn driver(proc: &Path, pid: u32) -> Option<bool> {
    let mut text = Vec::new();
    let file = Dir::open(&proc.join(pid.to_string())).ok()?.open_file(c"maps").ok()?;
    read_all(&file, &mut text, LIMIT).ok()?;
    if text.is_empty() {
        return None;
    }
    Some(mappings(&text).any(|mapping| is_driver(mapping.name())))
}

/// The libraries of CUDA, HIP and ROCr, by name.
pub(super) fn is_driver(name: &[u8]) -> bool {
    let known = [&b"libcuda.so"[..], b"libamdhip64.so", b"libhsa-runtime64.so"];
    known.iter().any(|known| name.starts_with(known))
}
