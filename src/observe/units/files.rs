//! Reads unit files, each once, and keeps only their lines about devices.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::{Dir, read_all};
use crate::sys::stat::{FileKind, stat_at};
use crate::unit::device_lines;

/// Bytes of a unit file.
const FILE_LIMIT: usize = 256 << 10;

/// The result of reading a file: its lines, `None` if it is masked.
type Lines = Result<Option<String>, Errno>;

/// Files that were read; drop-ins of a whole kind belong to many units.
#[derive(Debug, Default)]
pub(super) struct UnitFiles {
    known: HashMap<(PathBuf, &'static str), Lines>,
    buffer: Vec<u8>,
}

impl UnitFiles {
    /// The lines about devices in one section of a file.
    pub(super) fn lines(&mut self, path: &Path, section: &'static str) -> Lines {
        let key = (path.to_owned(), section);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let lines = self.read(path, section);
        self.known.insert(key, lines.clone());
        lines
    }

    /// A link to `/dev/null` or an empty file masks the unit. A file that was
    /// removed since it was listed is ignored.
    fn read(&mut self, path: &Path, section: &'static str) -> Lines {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::EINVAL) };
        let name = CString::new(name.as_bytes()).or(Err(Errno::EINVAL))?;
        let Some(dir) = Dir::open(dir).or_absent()? else { return Ok(Some(String::new())) };
        match stat_at(&dir, &name).or_absent()? {
            None => return Ok(Some(String::new())),
            Some(stat) if is_mask(stat) => return Ok(None),
            Some(_) => {}
        }
        let Some((file, _)) = dir.open_regular(&name).or_absent()? else { return Ok(Some(String::new())) };
        read_all(&file, &mut self.buffer, FILE_LIMIT)?;
        Ok(Some(device_lines(&self.buffer, section)))
    }
}

fn is_mask(stat: crate::sys::stat::FileStat) -> bool {
    match stat.kind {
        FileKind::Regular => stat.size == 0,
        FileKind::Char => stat.rdev == (1, 3),
        _ => false,
    }
}
