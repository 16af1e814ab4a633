//! Reading files that others wrote: always bounded.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Failure, Session};

/// The largest file that is read.
const LIMIT: u64 = 256 << 20;

/// Reads a file; `-` is standard input.
pub(super) fn read(session: &mut Session<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    if path.as_os_str() == "-" {
        return bounded(session.stdin()?, Path::new("standard input"));
    }
    bounded(File::open(path).map_err(|error| Failure::file(path, &error))?, path)
}

fn bounded(source: impl Read, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source.take(LIMIT + 1).read_to_end(&mut bytes).map_err(|error| Failure::file(path, &error))?;
    match u64::try_from(bytes.len()) {
        Ok(size) if size <= LIMIT => Ok(bytes),
        _ => Err(Failure::new("too-large", path.to_string_lossy(), "larger than 256 MiB", "")),
    }
}

/// How a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.to_string_lossy().into_owned() }
}
