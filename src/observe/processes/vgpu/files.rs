//! The mappings that may be the library or a shared region, with facts and contents of their
//! files through the mapping itself: the file that the process uses, whatever has its name
//! by now.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use memchr::memmem;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use crate::observation::{Answer, FileFacts, LARGEST_REGION, MappedFile, RegionContents, SparseBytes};
use crate::observe::pinned::NotRead;
use crate::observe::processes::mapped_files::{Mapping, find, mappings};
use crate::sys::dir::Dir;
use crate::sys::regular_file::NotOpened;
use crate::sys::stat::{FileKind, FileStat};

/// How the libraries' files are named: `libvgpu.so`, `libvgpu.so.v2.5.0`.
pub(super) const LIBRARIES: [&[u8]; 2] = [b"libvgpu.so", b"libsoftmig.so"];

/// What the names of regions contain, unless somebody chooses another.
const REGION: &[u8] = b".cache";

/// Bytes of the regions of every layout.
const SIZES: [u64; 5] = [804_680, 1_197_896, 2_008_952, 2_008_984, 2_140_032];

/// Sizes of pages: mappings end at the end of one.
const PAGES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// Different libraries that are looked at, and regions that name or size makes ones.
const FILES: usize = 8;

/// Other files that a process shares: programs of many processes have dozens.
const OTHERS: usize = 64;

/// Mappings of different files.
#[derive(Debug, Default)]
pub(super) struct Candidates<'a> {
    /// Those named like the libraries, with whether any part is executable.
    pub(super) libraries: Vec<(Mapping<'a>, bool)>,
    /// Those that may be regions, with whether name or size says so. Of the others
    /// the first bytes decide.
    pub(super) regions: Vec<(Mapping<'a>, bool)>,
    /// Whether there are more libraries, or more files that may be the region, than
    /// are looked at.
    pub(super) more: bool,
}

impl Candidates<'_> {
    /// Whether there is neither.
    pub(super) fn is_empty(&self) -> bool {
        self.libraries.is_empty() && self.regions.is_empty() && !self.more
    }
}

/// Whether the text of the mappings can name either.
pub(super) fn may_have_any(maps: &[u8]) -> bool {
    LIBRARIES.iter().any(|name| memmem::find(maps, name).is_some())
        || memmem::find(maps, b"-s ").is_some() && memmem::find(maps, REGION).is_some()
        || memmem::find(maps, b"ws ").is_some() && memmem::find(maps, REGION).is_some()
}

/// Sorts the mappings. The library maps a region from its beginning, shared and
/// writable; a process can take pages away again. Beside the library any such file may
/// be one, for a build to come may have another size and a user another name; without
/// the library it takes name and size. `named` is the path that the environment gives.
pub(super) fn candidates<'a>(maps: &'a [u8], named: Option<&[u8]>) -> Candidates<'a> {
    let mut found = Candidates::default();
    for mapping in mappings(maps).filter(|mapping| is_library(mapping.name())) {
        let count = found.libraries.len();
        match found.libraries.iter_mut().find(|(known, _)| known.file() == mapping.file()) {
            Some((_, executable)) => *executable |= mapping.executable,
            None if count < FILES => found.libraries.push((mapping, mapping.executable)),
            None => found.more = true,
        }
    }
    let is_hooked = !found.libraries.is_empty();
    let mut more_others = false;
    for mapping in mappings(maps).filter(|mapping| mapping.writes_file) {
        let is_named = memmem::find(mapping.name(), REGION).is_some() || named == Some(path(&mapping));
        let begins = mapping.offset == 0;
        let is_sized = begins && has_size(mapping.end.saturating_sub(mapping.start));
        let (is_sure, may_be) =
            if is_hooked { (is_named || is_sized, begins || is_named) } else { (true, is_named && is_sized) };
        if !may_be || found.regions.iter().any(|(known, _)| known.file() == mapping.file()) {
            continue;
        }
        match found.regions.iter().filter(|(_, known)| *known == is_sure).count() {
            count if count < if is_sure { FILES } else { OTHERS } => found.regions.push((mapping, is_sure)),
            _ if is_sure => found.more = true,
            _ => more_others = true,
        }
    }
    // Beside a region of a known size and name, the others are no regions.
    found.more |= more_others && !found.regions.iter().any(|(_, sure)| *sure);
    found
}

/// The path of a mapped file without the kernel's mark.
pub(super) fn path<'a>(mapping: &Mapping<'a>) -> &'a [u8] {
    mapping.path.strip_suffix(b" (deleted)").unwrap_or(mapping.path)
}

pub(super) fn is_library(name: &[u8]) -> bool {
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

fn has_size(length: u64) -> bool {
    SIZES.iter().any(|size| PAGES.iter().any(|page| size.next_multiple_of(*page) == length))
}

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
        match if *is_sure { Ok(true) } else { begins_as_region(dir, mapping) } {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                mapped.file = Answer::Missing(why);
                return Some(mapped);
            }
        }
        match find(dir, mapping) {
            Ok((stat, _)) if stat.kind != FileKind::Regular => {
                mapped.file = Answer::Missing("it is no regular file".to_owned());
            }
            Ok((stat, link)) => {
                mapped.file = Answer::Known(facts(&stat));
                mapped.contents = self.changed(mapping, &stat, dir.open_regular(&link), user);
            }
            Err(errno) => mapped.file = Answer::Missing(why(errno)),
        }
        Some(mapped)
    }

    fn changed(
        &mut self,
        mapping: &Mapping<'_>,
        found: &FileStat,
        opened: Result<(File, FileStat), NotOpened>,
        user: Option<u32>,
    ) -> Option<RegionContents> {
        let bytes = match opened {
            // Another took the name, where the mapping's own link is not to be had. The numbers
            // in `maps` are no measure: older kernels show those below an overlay there.
            Ok((_, stat)) if (stat.dev, stat.inode) != (found.dev, found.inode) => {
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

/// What was found below the root of a process; `None` where there is nothing of that name,
/// and where it cannot be looked at, which `unread` tells: a user's file system (FUSE)
/// refuses others than its owner. An error where the kernel had no room for the look.
pub(super) fn found<T>(
    found: Result<T, impl Into<NotOpened>>,
    unread: &mut Option<String>,
) -> Result<Option<T>, NotRead> {
    match found.map_err(Into::into) {
        Ok(found) => Ok(Some(found)),
        Err(NotOpened::Call(
            errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EIO | Errno::EAGAIN),
        )) => Err(NotRead::Failed("/root", errno)),
        // Links in a circle lead its library to no file either.
        Err(NotOpened::Call(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)) => Ok(None),
        Err(why) => {
            unread.get_or_insert_with(|| format!("files below its root cannot be looked at: {why}"));
            Ok(None)
        }
    }
}

/// Whether a mapped file is a regular one that begins as regions do; or why that is not
/// known.
fn begins_as_region(dir: &Dir, mapping: &Mapping<'_>) -> Result<bool, String> {
    let opened = find(dir, mapping).map_err(NotOpened::from).and_then(|(stat, link)| match stat.kind {
        FileKind::Regular => dir.open_regular(&link),
        _ => Err(NotOpened::NotRegular),
    });
    let mut flag = [0; 4];
    match opened {
        Ok((file, _)) => match file.read_exact_at(&mut flag, 0) {
            Ok(()) => Ok(u32::from_le_bytes(flag) == MAGIC),
            // It is too short.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(format!("it cannot be read: {error}")),
        },
        Err(NotOpened::NotRegular | NotOpened::Call(Errno::ENOENT)) => Ok(false),
        Err(unopened) => Err(why(unopened)),
    }
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
pub(super) fn why(not_opened: impl Into<NotOpened>) -> String {
    let errno = match not_opened.into() {
        NotOpened::Call(errno) => errno,
        why => return why.to_string(),
    };
    match errno {
        Errno::EACCES | Errno::EPERM => {
            "not allowed to look behind its mapping: needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE".to_owned()
        }
        Errno::EWOULDBLOCK => "another process has a lease on it".to_owned(),
        Errno::ENOSYS => "needs Linux 5.6".to_owned(),
        errno => format!("it cannot be opened: {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that libraries and regions are told from other files, and that
    /// a file that is mapped twice counts once.
    #[test]
    fn kinds() {
        let text = b"7f0000000000-7f00001eb000 rw-s 00000000 fe:00 9 /usr/local/vgpu/a.cache (deleted)\n\
            7f0001000000-7f00011eb000 rw-s 00000000 fe:00 9 /usr/local/vgpu/a.cache (deleted)\n\
            7f0002000000-7f00021eb000 r--s 00000000 fe:00 10 /var/cache/fonts.cache-7\n\
            7f0003000000-7f0003001000 rw-s 00000000 fe:00 11 /dev/shm/other\n\
            7f0004000000-7f00040c5000 rw-s 00000000 fe:00 12 /dev/shm/region of v0a\n\
            7f0005000000-7f0005010000 r--p 00000000 fe:00 13 /usr/local/vgpu/libvgpu.so.v2.5.0\n\
            7f0005010000-7f0005020000 r-xp 00010000 fe:00 13 /usr/local/vgpu/libvgpu.so.v2.5.0\n";
        assert!(may_have_any(text));
        let found = candidates(text, None);
        let inodes: Vec<(u64, bool)> =
            found.regions.iter().map(|(region, sure)| (region.inode, *sure)).collect();
        assert_eq!((inodes, found.libraries.len()), (vec![(9, true), (11, false), (12, true)], 1));
        assert!(found.libraries[0].1);
        let without: Vec<u8> =
            text.split_inclusive(|byte| *byte == b'\n').take(5).flatten().copied().collect();
        let found = candidates(&without, None);
        assert_eq!(found.regions.iter().map(|(region, _)| region.inode).collect::<Vec<_>>(), [9]);
        assert!(!may_have_any(b"7f00-7f10 r-xp 00000000 fe:00 3 /usr/lib/libc.so.6\n"));
        assert!(!found.more && !found.is_empty());
        let locale = b"7f00-7f10 r--s 00000000 fe:00 3 /usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache\n";
        assert!(may_have_any(locale) && candidates(locale, None).is_empty());
    }

    /// Make sure that files which stand before the library or the region in great
    /// number hide neither: either it is found, or it is known that there are more.
    #[test]
    fn many() {
        let line = |at: usize, kind: &str, name: &str| {
            let (start, end) = (at << 24, (at << 24) + 0x1eb000);
            format!("{start:x}-{end:x} {kind} 00000000 fe:00 {} {name}\n", at + 1)
        };
        let library = line(1000, "r-xp", "/usr/local/vgpu/libvgpu.so");
        let region = line(1001, "rw-s", "/r.cache");
        let small = |at: usize| format!("{at:x}000-{at:x}fff rw-s 00000000 fe:00 {} /dev/shm/{at}\n", at + 1);
        let with = |before: &dyn Fn(usize) -> String, count: usize, rest: &str| {
            let text: String = (0..count).map(before).chain([rest.to_owned()]).collect();
            let found = candidates(text.as_bytes(), None);
            (found.libraries.iter().any(|(one, _)| one.inode == 1001), found.regions.len(), found.more)
        };
        let both = format!("{library}{region}");
        let data = |at: usize| line(at, "r--p", "/tmp/libvgpu.so");
        assert_eq!(with(&data, 7, &both), (true, 1, false));
        assert_eq!(with(&data, 8, &both), (false, 1, true));
        let decoy = |at: usize| line(at, "rw-s", "/tmp/decoy.cache");
        assert_eq!(with(&decoy, 7, &both), (true, 8, false));
        assert_eq!(with(&decoy, 8, &both), (true, 8, true));
        assert_eq!(with(&small, 500, &both), (true, 65, false));
        assert_eq!(with(&small, 500, &library), (true, 64, true));
        assert_eq!(with(&small, 60, &library), (true, 60, false));
    }
}
