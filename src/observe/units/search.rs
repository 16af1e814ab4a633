//! Where systemd looks for a unit's files, systemd.unit(5).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::unit::drop_in_names;

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
    drop_ins: HashMap<PathBuf, Rc<[String]>>,
}

impl Search {
    /// Lists the directories below `root`; one that is there twice (`/lib` is
    /// often a link) counts once.
    pub(super) fn new(root: &Path) -> Self {
        let mut known = HashSet::new();
        let mut dirs = Vec::new();
        for dir in DIRS.map(|dir| root.join(dir)) {
            let Ok(meta) = fs::metadata(&dir) else { continue };
            if known.insert((meta.dev(), meta.ino())) {
                let names = names(&dir, ENTRY_LIMIT);
                dirs.push((dir, names.into_iter().collect()));
            }
        }
        Self { dirs, drop_ins: HashMap::new() }
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
    pub(super) fn drop_ins(&mut self, name: &str) -> Vec<PathBuf> {
        let mut specific = drop_in_names(name);
        let kind = specific.pop().unwrap_or_default();
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for names in [specific, vec![kind]] {
            for dir in self.existing(&names) {
                for file in self.listed(&dir).iter() {
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

    fn listed(&mut self, dir: &Path) -> Rc<[String]> {
        if let Some(known) = self.drop_ins.get(dir) {
            return known.clone();
        }
        let mut files = names(dir, DROP_IN_LIMIT);
        files.retain(|name| name.ends_with(".conf") && !name.starts_with('.'));
        let files: Rc<[String]> = files.into();
        self.drop_ins.insert(dir.to_owned(), files.clone());
        files
    }
}

/// `a@x.service` → `a@.service`.
fn template(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_once('@')?;
    let (_, kind) = rest.rsplit_once('.')?;
    Some(format!("{prefix}@.{kind}"))
}

/// Names that are not UTF-8 are no names of units.
fn names(dir: &Path, limit: usize) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.take(limit).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
