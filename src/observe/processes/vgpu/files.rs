//! Facts and contents of mapped files, through the mapping itself: the file
//! that the process uses, whatever has its name by now.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use super::candidates::path;
use crate::observation::{Answer, FileFacts, LARGEST_REGION, MappedFile, RegionContents, SparseBytes};
use crate::observe::pinned::NotRead;
use crate::observe::processes::mapped_files::find;
use crate::observe::processes::mappings::Mapping;
use crate::sys::dir::Dir;
use crate::sys::stat::{FileKind, FileStat};

/// Bytes that are read of a file that is too large for a region.
const BEGINNING: usize = 4096;
/// Bytes that one helper keeps of the regions of one user's processes: of hundreds of
/// containers, for most of a region is zero. Who owns the files does not matter: a
/// file system of a user's (FUSE) can show any owner.
const BYTES: usize = 16 << 20;
/// How every region begins (`initialized_flag`, little-endian); 0 before it is
/// ready.
const MAGIC: u32 = 19_920_718;

/// Reads shared regions, each as often as a process has it: a process may have
/// registered since the last.
#[derive(Debug, Default)]
pub(super) struct RegionReader {
    /// What was handed out of a file before.
    last: HashMap<([u32; 2], u64), Answer<SparseBytes>>,
    /// Bytes kept so far, by the user who is responsible for the process.
    bytes: HashMap<Option<u32>, usize>,
    buffer: Vec<u8>,
}

impl RegionReader {
    /// A mapping that may be a region; with contents, unless they are those
    /// that were handed out last. `None` for one that neither its name nor its size
    /// nor its beginning makes a region. `user` is responsible for the process.
    pub(super) fn region(
        &mut self,
        dir: &Dir,
        (mapping, is_sure): &(Mapping<'_>, bool),
        user: Option<u32>,
    ) -> Option<MappedFile> {
        let mut mapped = bare(mapping, false);
        if !is_sure && !begins_as_region(dir, mapping) {
            return None;
        }
        match find(dir, mapping) {
            Ok((stat, _)) if stat.kind != FileKind::Regular => {
                mapped.file = Answer::Missing("it is no regular file".to_owned());
            }
            Ok((stat, link)) => {
                mapped.file = Answer::Known(facts(&stat));
                mapped.contents = self.changed(mapping, dir.open_regular(&link), user);
            }
            Err(errno) => mapped.file = Answer::Missing(why(errno)),
        }
        Some(mapped)
    }

    fn changed(
        &mut self,
        mapping: &Mapping<'_>,
        opened: Result<(File, FileStat), Errno>,
        user: Option<u32>,
    ) -> Option<RegionContents> {
        let bytes = match opened {
            // Another took the name, where the mapping's own link is not to be had.
            Ok((_, stat)) if stat.inode != mapping.inode => {
                Answer::Missing("another file has its name".to_owned())
            }
            Ok((file, stat)) => self.contents(&file, stat.size, user),
            Err(errno) => Answer::Missing(why(errno)),
        };
        let known = self.last.entry(([mapping.dev.0, mapping.dev.1], mapping.inode));
        if matches!(&known, Entry::Occupied(known) if *known.get() == bytes) {
            return None;
        }
        known.insert_entry(bytes.clone());
        Some(RegionContents { at: now(), bytes })
    }

    /// What a file says: all of it if it can be a region, else its beginning.
    fn contents(&mut self, file: &File, size: u64, user: Option<u32>) -> Answer<SparseBytes> {
        let kept = self.bytes.entry(user).or_default();
        if *kept > BYTES {
            let whose = user.map_or_else(|| "processes that ended".to_owned(), |uid| format!("uid {uid}"));
            return Answer::Missing(format!("the regions of {whose} are over {} MiB", BYTES >> 20));
        }
        let read = read(file, &mut self.buffer, BEGINNING).and_then(|begin| {
            let flag = self.buffer.first_chunk().copied().map(u32::from_le_bytes);
            match (flag, usize::try_from(size)) {
                (Some(MAGIC), Ok(whole)) if whole <= LARGEST_REGION => {
                    read(file, &mut self.buffer, whole).map(|read| (read, read as u64))
                }
                _ => Ok((begin, size)),
            }
        });
        match read {
            Err(error) => Answer::Missing(format!("it cannot be read: {error}")),
            Ok((length, size)) => {
                let bytes = SparseBytes::of(self.buffer.get(..length).unwrap_or_default(), size);
                *kept += bytes.len();
                Answer::Known(bytes)
            }
        }
    }
}

/// What was found below the root of a process, which may refuse to be looked at in any way;
/// an error where the kernel had no room for the look.
pub(super) fn found<T>(found: Result<T, Errno>) -> Result<Option<T>, NotRead> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EIO | Errno::EAGAIN)) => {
            Err(NotRead::Failed("/root", errno))
        }
        Err(_) => Ok(None),
    }
}

/// Whether a mapped file is a regular one that begins as regions do.
fn begins_as_region(dir: &Dir, mapping: &Mapping<'_>) -> bool {
    let Ok((stat, link)) = find(dir, mapping) else { return false };
    let file = (stat.kind == FileKind::Regular).then(|| dir.open_regular(&link).ok()).flatten();
    let mut flag = [0; 4];
    file.is_some_and(|(file, _)| file.read_exact_at(&mut flag, 0).is_ok())
        && u32::from_le_bytes(flag) == MAGIC
}

/// Reads the first `wanted` bytes of a file; fewer where it ends before, which it
/// may do while it is read.
fn read(file: &File, buffer: &mut Vec<u8>, wanted: usize) -> io::Result<usize> {
    buffer.resize(wanted, 0);
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
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
