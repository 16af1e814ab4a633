//! The files that a process maps: the lines of `/proc/PID/maps` that name one, and what the
//! files say about the environ array, by ELF: read from the files, never from memory that a
//! process can write, and each file once.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use nix::errno::Errno;

use crate::elf::{Class, ElfError, ElfFile, Symbol, SymbolKind};
use crate::observe::problems::errno_of;
use crate::sys::absence::of_open;
use crate::sys::dir::Dir;
use crate::sys::regular_file::NotOpened;
use crate::sys::retry::again;
use crate::sys::stat::{FileKind, FileStat, stat_at};

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Offset of `start` in the file.
    pub(crate) offset: u64,
    pub(crate) executable: bool,
    /// Whether what is written there goes into the file (`w` and `s`).
    pub(crate) writes_file: bool,
    /// Major and minor number of the file system.
    pub(crate) dev: (u32, u32),
    pub(crate) inode: u64,
    /// The path in the process's root directory; newlines are escaped, and `
    /// (deleted)` follows that of a removed file.
    pub(crate) path: &'a [u8],
}

/// The mappings of files in the text of `maps`; lines that are malformed or cut are
/// left out.
pub(crate) fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| parse(line.strip_suffix(b"\n")?))
}

/// `START-END PERMS OFFSET MAJOR:MINOR INODE    PATH`; anonymous memory has
/// inode 0.
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, rest) = number(line, b'-', 16)?;
    let (end, rest) = number(rest, b' ', 16)?;
    let (executable, writes_file) = (*rest.get(2)? == b'x', *rest.get(1)? == b'w' && *rest.get(3)? == b's');
    let rest = rest.get(5..)?;
    let (offset, rest) = number(rest, b' ', 16)?;
    let (major, rest) = number(rest, b':', 16)?;
    let (minor, rest) = number(rest, b' ', 16)?;
    let (inode, rest) = number(rest, b' ', 10)?;
    if inode == 0 {
        return None;
    }
    let dev = (u32::try_from(major).ok()?, u32::try_from(minor).ok()?);
    let path = rest.trim_ascii_start();
    Some(Mapping { start, end, offset, executable, writes_file, dev, inode, path })
}

/// A number up to `end`, and the rest after it.
fn number(text: &[u8], end: u8, base: u32) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    for (at, byte) in text.iter().enumerate() {
        if *byte == end {
            return (at > 0).then_some((value, text.get(at + 1..)?));
        }
        let digit = char::from(*byte).to_digit(base)?;
        value = value.checked_mul(base.into())?.checked_add(digit.into())?;
    }
    None
}

impl<'a> Mapping<'a> {
    /// The last part of the path, without the mark of a removed file.
    pub(crate) fn name(&self) -> &'a [u8] {
        let path = self.path.strip_suffix(b" (deleted)").unwrap_or(self.path);
        path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
    }

    /// Which file it is.
    pub(crate) fn file(&self) -> ((u32, u32), u64) {
        (self.dev, self.inode)
    }
}

/// Regular files and ELF files that are remembered; a process can map any
/// number.
const REMEMBERED: usize = 1 << 16;

const IMAGES: usize = 1 << 12;

/// Which version of which file.
pub(super) type Version = ((u32, u32), u64, u64, (i64, u32));

/// The files that are known so far.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    images: HashMap<(Version, Role), Rc<Result<Image, String>>>,
    regular: HashSet<((u32, u32), u64)>,
}

impl MappedFiles {
    /// The executable as an ELF file.
    pub(super) fn executable(&mut self, dir: &Dir) -> Result<Rc<Result<Image, String>>, NotOpened> {
        let stat = stat_at(dir, c"exe")?;
        self.image(stat, Role::Program, || dir.open_regular(c"exe"))
    }

    /// A mapped file as an ELF file.
    pub(super) fn mapped(
        &mut self,
        dir: &Dir,
        mapping: &Mapping<'_>,
    ) -> Result<Rc<Result<Image, String>>, NotOpened> {
        let (stat, name) = find(dir, mapping)?;
        self.image(stat, Role::Library, || dir.open_regular(&name))
    }

    fn image(
        &mut self,
        stat: FileStat,
        role: Role,
        open: impl FnOnce() -> Result<(File, FileStat), NotOpened>,
    ) -> Result<Rc<Result<Image, String>>, NotOpened> {
        if let Some(known) = self.images.get(&(version(&stat), role)) {
            return Ok(Rc::clone(known));
        }
        let (file, now) = open()?;
        if version(&now) != version(&stat) {
            return Err(NotOpened::Replaced);
        }
        let image = match read(&file, role) {
            // Says nothing of the file, and nothing that holds for the next process.
            Err(ElfError::Unreadable(error)) => {
                return Err(of_open(errno_of(&error)).into());
            }
            image => Rc::new(image.map_err(|error| error.to_string())),
        };
        if self.images.len() >= IMAGES {
            self.images.clear();
        }
        self.images.insert((version(&stat), role), Rc::clone(&image));
        Ok(image)
    }

    /// The device that a mapped file is; `None` for other files.
    pub(super) fn device(&mut self, dir: &Dir, mapping: &Mapping<'_>) -> Result<Option<FileStat>, Errno> {
        if self.regular.contains(&mapping.file()) {
            return Ok(None);
        }
        let (stat, _) = find(dir, mapping)?;
        if matches!(stat.kind, FileKind::Char | FileKind::Block) {
            return Ok(Some(stat));
        }
        if self.regular.len() < REMEMBERED {
            self.regular.insert(mapping.file());
        }
        Ok(None)
    }
}

pub(super) fn version(stat: &FileStat) -> Version {
    (stat.dev, stat.inode, stat.size, stat.changed)
}

/// Finds a mapped file below the process's directory: the mapping's own link,
/// or, where that is not allowed, its path if the same file is still there.
pub(super) fn find(dir: &Dir, mapping: &Mapping<'_>) -> Result<(FileStat, CString), Errno> {
    let link = CString::new(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    // Numbers have no zero byte.
    let link = link.map_err(|_| Errno::EINVAL)?;
    let errno = match stat_at(dir, &link) {
        Ok(stat) => return Ok((stat, link)),
        Err(errno) => errno,
    };
    if !mapping.path.starts_with(b"/") {
        return Err(errno);
    }
    // The failure of the link itself is the one to tell.
    let path = CString::new([b"root", mapping.path].concat()).map_err(|_| errno)?;
    // The same.
    let stat = stat_at(dir, &path).map_err(|_| errno)?;
    if (stat.dev, stat.inode) == mapping.file() { Ok((stat, path)) } else { Err(errno) }
}

/// Names of variables that are looked for.
const NAMES: [&str; 3] = ["__environ", "environ", "__progname_full"];

/// The array as the C library itself calls it, and as programs do. Where an
/// executable defines only the second, that is a variable of its own.
pub(super) const ENVIRON: [usize; 2] = [0, 1];

/// The name of the program, which the C library sets up right after the array (`_init_first`
/// of glibc, `__init_libc` of musl).
pub(super) const PROGRAM: usize = 2;

/// What an ELF file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Image {
    /// Bytes of a pointer.
    pub(super) width: usize,
    /// Address of the program headers before relocation.
    pub(super) headers: Option<u64>,
    /// Whether it asks for a dynamic linker.
    pub(super) interpreter: bool,
    /// Offset and address of executable segments.
    pub(super) code: Vec<(u64, u64)>,
    /// Addresses, before relocation, of the names that it exports.
    pub(super) exported: [Option<u64>; NAMES.len()],
    /// The same from its full symbol table, if it has one; looked at in a program
    /// without interpreter alone.
    pub(super) own: Option<[Option<u64>; NAMES.len()]>,
}

/// What a file is to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::observe) enum Role {
    /// What it executes.
    Program,
    /// What it maps: only exported names are of interest.
    Library,
}

/// Reads a file.
///
/// # Errors
///
/// No ELF file, one that is malformed, one of another byte order, one whose
/// tables are too large, or one that takes too long.
pub(in crate::observe) fn read(file: &File, role: Role) -> Result<Image, ElfError> {
    let mut elf = ElfFile::open(|buffer: &mut [u8], offset| again(|| file.read_exact_at(buffer, offset)))?;
    let interpreter = elf.has_interpreter();
    let exported = addresses(&elf.exported(&NAMES, SymbolKind::Variable)?);
    let own = if role == Role::Program && !interpreter {
        elf.symbols(&NAMES, SymbolKind::Variable)?.as_deref().map(addresses)
    } else {
        None
    };
    let code = elf.segments().iter().filter(|segment| segment.executable);
    Ok(Image {
        width: if elf.class() == Class::Elf64 { 8 } else { 4 },
        headers: elf.program_headers(),
        interpreter,
        code: code.map(|segment| (segment.offset, segment.address)).collect(),
        exported,
        own,
    })
}

fn addresses(symbols: &[Option<Symbol>]) -> [Option<u64>; NAMES.len()] {
    std::array::from_fn(|index| symbols.get(index).copied().flatten().map(|symbol| symbol.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only whole lines of files are taken, with any path.
    #[test]
    fn lines() {
        let text = b"7f10-7f20 r-xp 0000a000 fd:1f 17      /a b\\012/libc.so.6 (deleted)\n\
            7f20-7f30 rw-p 00000000 00:00 0       [heap]\n7f30-7f40 rw-s 0 00:05 9 \nx\n\
            ffffffffff600000-ffffffffff601000 --xp 0 00:00 0 [vsyscall]\n7f40-7f50 r--p 0 00:01 7 /cut";
        let found: Vec<_> = mappings(text).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let path = &b"/a b\\012/libc.so.6 (deleted)"[..];
        let (start, end, offset, dev) = (0x7f10, 0x7f20, 0xa000, (0xfd, 0x1f));
        let (executable, writes_file) = (true, false);
        assert_eq!(found[0], Mapping { start, end, offset, executable, writes_file, dev, inode: 17, path });
        assert_eq!(found[0].name(), b"libc.so.6");
        assert!(found[1].path.is_empty() && !found[1].executable && found[1].writes_file);
    }

    /// Make sure that what a program says of itself is read, and its symbols only
    /// where nobody else can have the array.
    #[test]
    fn own_executable() {
        let file = File::open("/proc/self/exe").unwrap();
        let image = read(&file, Role::Program).unwrap();
        assert!(image.width == size_of::<usize>() && !image.code.is_empty() && image.headers.is_some());
        assert!(image.own.is_none() == image.interpreter);
        assert!(read(&File::open("/proc/self/cmdline").unwrap(), Role::Library).is_err());
    }
}
