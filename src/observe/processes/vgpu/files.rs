//! Facts and contents of mapped files, through the mapping itself: the file
//! that the process uses, whatever has its name by now.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use super::candidates::path;
use crate::observation::{Answer, FileFacts, LARGEST_REGION, MappedFile, RegionContents, SparseBytes};
use crate::observe::processes::mapped_files::find;
use crate::observe::processes::mappings::Mapping;
use crate::sys::dir::Dir;
use crate::sys::stat::{FileKind, FileStat};

/// Bytes that are read of a file that is too large for a region.
const BEGINNING: usize = 4096;
/// Bytes of the regions that one helper reads; together they are a node's worth
/// of containers.
const BYTES: usize = 64 << 20;

/// Reads shared regions, each as often as a process has it: a process may have
/// registered since the last.
#[derive(Debug, Default)]
pub(super) struct RegionReader {
    /// What was handed out of a file before.
    last: HashMap<([u32; 2], u64), Answer<SparseBytes>>,
    bytes: usize,
    buffer: Vec<u8>,
}

impl RegionReader {
    /// A mapping that may be a region; with contents, unless they are those
    /// that were handed out last.
    pub(super) fn region(&mut self, dir: &Dir, mapping: &Mapping<'_>) -> MappedFile {
        let mut mapped = bare(mapping, false);
        match find(dir, mapping) {
            Ok((stat, _)) if stat.kind != FileKind::Regular => {
                mapped.file = Answer::Missing("it is no regular file".to_owned());
            }
            Ok((stat, link)) => {
                mapped.file = Answer::Known(facts(&stat));
                mapped.contents = self.changed(mapping, dir.open_regular(&link));
            }
            Err(errno) => mapped.file = Answer::Missing(why(errno)),
        }
        mapped
    }

    fn changed(
        &mut self,
        mapping: &Mapping<'_>,
        opened: Result<(File, FileStat), Errno>,
    ) -> Option<RegionContents> {
        let bytes = match opened {
            // Another took the name, where the mapping's own link is not to be had.
            Ok((_, stat)) if stat.inode != mapping.inode => {
                Answer::Missing("another file has its name".to_owned())
            }
            Ok((file, stat)) => self.contents(&file, stat.size),
            Err(errno) => Answer::Missing(why(errno)),
        };
        let known = self.last.entry(([mapping.dev.0, mapping.dev.1], mapping.inode));
        if matches!(&known, Entry::Occupied(known) if *known.get() == bytes) {
            return None;
        }
        self.bytes += bytes.known().map_or(0, SparseBytes::len);
        known.insert_entry(bytes.clone());
        Some(RegionContents { at: now(), bytes })
    }

    fn contents(&mut self, file: &File, size: u64) -> Answer<SparseBytes> {
        if self.bytes > BYTES {
            return Answer::Missing(format!("regions of all processes are over {} MiB", BYTES >> 20));
        }
        let is_large = size > LARGEST_REGION as u64;
        let wanted = if is_large { BEGINNING } else { usize::try_from(size).unwrap_or(BEGINNING) };
        self.buffer.resize(wanted, 0);
        let mut filled = 0;
        while filled < wanted {
            let Some(rest) = self.buffer.get_mut(filled..) else { break };
            match file.read_at(rest, filled as u64) {
                // It was cut off since.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Answer::Missing(format!("it cannot be read: {error}")),
            }
        }
        let read = self.buffer.get(..filled).unwrap_or_default();
        Answer::Known(SparseBytes::of(read, if is_large { size } else { filled as u64 }))
    }
}

/// A mapping of a library.
pub(super) fn library(dir: &Dir, (mapping, executable): &(Mapping<'_>, bool)) -> MappedFile {
    let mut mapped = bare(mapping, *executable);
    mapped.file = match find(dir, mapping) {
        Ok((stat, _)) => Answer::Known(facts(&stat)),
        Err(errno) => Answer::Missing(why(errno)),
    };
    mapped
}

fn bare(mapping: &Mapping<'_>, executable: bool) -> MappedFile {
    MappedFile {
        path: path(mapping).into(),
        dev: [mapping.dev.0, mapping.dev.1],
        inode: mapping.inode,
        deleted: path(mapping).len() < mapping.path.len(),
        executable,
        file: Answer::default(),
        contents: None,
    }
}

/// The monotonic clock, which all helpers share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// What of a file matters.
pub(super) fn facts(stat: &FileStat) -> FileFacts {
    FileFacts { uid: stat.uid, mode: stat.permissions, size: stat.size }
}

/// Why a file was not read, one clause.
pub(super) fn why(errno: Errno) -> String {
    match errno {
        Errno::EACCES | Errno::EPERM => {
            "not allowed to look behind its mapping: needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE".to_owned()
        }
        Errno::EWOULDBLOCK => "another process has a lease on it".to_owned(),
        Errno::EINVAL => "it is no regular file".to_owned(),
        Errno::ENOSYS => "needs Linux 5.6".to_owned(),
        errno => format!("it cannot be opened: {errno}"),
    }
}
