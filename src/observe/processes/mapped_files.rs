//! What the files that a process maps say about the environ array, by ELF: read from the
//! files, never from memory that a process can write, and each file once.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use nix::errno::Errno;

use super::mappings::Mapping;
use crate::elf::{Class, ElfError, ElfFile, Symbol, SymbolKind};
use crate::observe::problems::errno_of;
use crate::sys::absence::is_absence;
use crate::sys::dir::Dir;
use crate::sys::retry::again;
use crate::sys::stat::{FileKind, FileStat, stat_at};

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
    pub(super) fn executable(&mut self, dir: &Dir) -> Result<Rc<Result<Image, String>>, Errno> {
        let stat = stat_at(dir, c"exe")?;
        self.image(stat, Role::Program, || dir.open_regular(c"exe"))
    }

    /// A mapped file as an ELF file.
    pub(super) fn mapped(
        &mut self,
        dir: &Dir,
        mapping: &Mapping<'_>,
    ) -> Result<Rc<Result<Image, String>>, Errno> {
        let (stat, name) = find(dir, mapping)?;
        self.image(stat, Role::Library, || dir.open_regular(&name))
    }

    fn image(
        &mut self,
        stat: FileStat,
        role: Role,
        open: impl FnOnce() -> Result<(File, FileStat), Errno>,
    ) -> Result<Rc<Result<Image, String>>, Errno> {
        if let Some(known) = self.images.get(&(version(&stat), role)) {
            return Ok(Rc::clone(known));
        }
        let (file, now) = open()?;
        if version(&now) != version(&stat) {
            return Err(Errno::ESTALE);
        }
        let image = match read(&file, role) {
            // Says nothing of the file, and nothing that holds for the next process: what
            // is open is there.
            Err(ElfError::Unreadable(error)) => {
                return Err(Some(errno_of(&error)).filter(|errno| !is_absence(*errno)).unwrap_or(Errno::EIO));
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

/// The array as the C library itself calls it, and as programs do. Where an
/// executable defines only the second, that is a variable of its own.
const NAMES: [&str; 2] = ["__environ", "environ"];

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
