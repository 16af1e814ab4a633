//! Identifies the files behind a process's executable and mappings, and reads the
//! ELF files among them. Each file is read once for all processes.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::rc::Rc;

use nix::errno::Errno;

use super::image::{self, Image, Role};
use super::mappings::Mapping;
use crate::elf::ElfError;
use crate::observe::problems::errno_of;
use crate::sys::absence::is_absence;
use crate::sys::dir::Dir;
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
        let image = match image::read(&file, role) {
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
    let link = link.map_err(|_| Errno::EINVAL)?;
    let errno = match stat_at(dir, &link) {
        Ok(stat) => return Ok((stat, link)),
        Err(errno) => errno,
    };
    if !mapping.path.starts_with(b"/") {
        return Err(errno);
    }
    let path = CString::new([b"root", mapping.path].concat()).map_err(|_| errno)?;
    let stat = stat_at(dir, &path).map_err(|_| errno)?;
    if (stat.dev, stat.inode) == mapping.file() { Ok((stat, path)) } else { Err(errno) }
}
