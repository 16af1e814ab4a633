//! Files that gpumap writes: whole or not at all, for their owner's eyes.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;

use crate::render;

/// Writes JSON beside the file and renames.
pub(super) fn save<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut beside = name.to_owned();
    beside.push(format!(".new-{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = write(&beside, value).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to report.
        let _already_failed = fs::remove_file(&beside);
    }
    written
}

/// Never follows what someone else put there: the file must be new.
fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = BufWriter::new(file);
    render::json::write(&mut out, value)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
