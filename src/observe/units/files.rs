//! Unit files: where systemd looks for those of a unit, systemd.unit(5), and their lines
//! about devices. Each file is read once, and nothing else of it is kept.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::stat::fstat;

use crate::observe::problems::Log;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::{Dir, read_all};
use crate::sys::regular_file::NotOpened;
use crate::sys::retry::again;
use crate::sys::stat::{FileKind, stat_at};
use crate::unit::{device_lines, drop_in_names};

/// The directories of the system's manager, the first one wins.
const DIRS: [&str; 13] = [
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
    "etc/systemd/system",
    "etc/systemd/system.attached",
    "run/systemd/system",
    "run/systemd/system.attached",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
];

/// Entries of one directory that are looked at.
const ENTRY_LIMIT: usize = 65_536;

/// Drop-ins of one directory.
const DROP_IN_LIMIT: usize = 1024;

/// The directories and the files in them.
#[derive(Debug)]
pub(super) struct Search {
    dirs: Vec<(PathBuf, HashSet<String>)>,
    drop_ins: HashMap<PathBuf, (Rc<[String]>, Option<String>)>,
    unread: Vec<String>,
}

impl Search {
    /// Lists the directories below `root`; one that is there twice (`/lib` is
    /// often a link) counts once.
    pub(super) fn new(root: &Path, log: &mut Log) -> Self {
        let mut known = HashSet::new();
        let (mut dirs, mut unread) = (Vec::new(), Vec::new());
        for dir in DIRS.map(|dir| root.join(dir)) {
            let (names, id) = match names(&dir, ENTRY_LIMIT) {
                Ok(Some(listed)) => listed,
                Ok(None) => continue,
                Err(errno) => {
                    log.failed(dir.to_string_lossy(), errno);
                    unread.push(format!("{}: {}", dir.display(), errno.desc()));
                    continue;
                }
            };
            if known.insert(id) {
                dirs.push((dir, names.into_iter().collect()));
            }
        }
        Self { dirs, drop_ins: HashMap::new(), unread }
    }

    /// Directories that could not be listed, each with the reason: any unit may have a
    /// file in them.
    pub(super) fn unread(&self) -> &[String] {
        &self.unread
    }

    /// The unit file: the first of its name, else the first of its template's.
    pub(super) fn fragment(&self, name: &str) -> Option<PathBuf> {
        let find = |name: &str| {
            let (dir, _) = self.dirs.iter().find(|(_, names)| names.contains(name))?;
            Some(dir.join(name))
        };
        find(name).or_else(|| find(&template(name)?))
    }

    /// The drop-ins in the order in which systemd applies them: by file name,
    /// whatever their directory. Of several with one name only the first counts:
    /// first by directory, then the more specific one, those of the whole kind last.
    /// Directories that cannot be listed are added to `unread`.
    pub(super) fn drop_ins(&mut self, name: &str, log: &mut Log, unread: &mut Vec<String>) -> Vec<PathBuf> {
        let mut specific = drop_in_names(name);
        let kind = specific.pop().unwrap_or_default();
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for names in [specific, vec![kind]] {
            for dir in self.existing(&names) {
                let (files, why) = self.listed(&dir, log);
                unread.extend(why);
                for file in files.iter() {
                    found.entry(file.clone()).or_insert_with(|| dir.join(file));
                }
            }
        }
        found.into_values().collect()
    }

    fn existing(&self, names: &[String]) -> Vec<PathBuf> {
        let in_dir = |(dir, known): &(PathBuf, HashSet<String>)| {
            let here = names.iter().map(|name| format!("{name}.d")).filter(|name| known.contains(name));
            here.map(|name| dir.join(name)).collect::<Vec<_>>()
        };
        self.dirs.iter().flat_map(in_dir).collect()
    }

    fn listed(&mut self, dir: &Path, log: &mut Log) -> (Rc<[String]>, Option<String>) {
        if let Some(known) = self.drop_ins.get(dir) {
            return known.clone();
        }
        let (mut files, why) = match names(dir, DROP_IN_LIMIT) {
            Ok(listed) => (listed.map(|(names, _)| names).unwrap_or_default(), None),
            Err(errno) => {
                log.failed(dir.to_string_lossy(), errno);
                (Vec::new(), Some(format!("{}: {}", dir.display(), errno.desc())))
            }
        };
        files.retain(|name| name.ends_with(".conf") && !name.starts_with('.'));
        let listed: (Rc<[String]>, _) = (files.into(), why);
        self.drop_ins.insert(dir.to_owned(), listed.clone());
        listed
    }
}

/// `a@x.service` → `a@.service`.
fn template(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_once('@')?;
    let (_, kind) = rest.rsplit_once('.')?;
    Some(format!("{prefix}@.{kind}"))
}

/// The names in a directory, and its place on which file system; `None` where there is no
/// directory. Names that are not UTF-8 are no names of units.
type Listed = (Vec<String>, (u64, u64));

fn names(dir: &Path, limit: usize) -> Result<Option<Listed>, Errno> {
    let mut names = Vec::new();
    let mut left = limit;
    let listed = Dir::open(dir).and_then(|open| {
        open.names(|name| {
            names.extend(name.to_str().map(str::to_owned));
            left = left.saturating_sub(1);
            left > 0
        })?;
        again(|| fstat(&open)).map(|facts| (facts.st_dev, facts.st_ino))
    });
    match listed {
        // A file in the place of a directory has no files.
        Err(Errno::ENOTDIR) => Ok(None),
        listed => Ok(listed.or_absent()?.map(|id| (names, id))),
    }
}

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
        let opened = dir.open_regular(&name).map_err(NotOpened::errno);
        let Some((file, _)) = opened.or_absent()? else { return Ok(Some(String::new())) };
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
