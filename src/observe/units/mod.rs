//! Reads what the files of systemd's units say about devices.
//!
//! systemd is not asked: on a node in trouble it may not answer, and what counts is
//! what it will read at the next daemon-reload. Its directories are listed once;
//! then only files of observed units are read, and only their lines about devices
//! are kept.

mod files;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use files::{Search, UnitFiles};
use nix::errno::Errno;

use super::cgroups::walk::VisitedCgroup;
use super::clock::modified_at;
use super::options::Options;
use super::problems::Log;
use super::programs::cache::ProgramCache;
use crate::model::{CgroupPath, DeviceType, ProblemCode};
use crate::observation::{Answer, Attached, ConfigFile, DeviceNumber, NamedNode, PinnedProgram, Text, Unit};
use crate::sys::absence::is_absence;
use crate::sys::bpf::{self, CGROUP_DEVICE_PROGRAM};
use crate::sys::dir::Dir;
use crate::sys::stat::{FileKind, stat_at};
use crate::unit::{Settings, UnitKind, of_cgroup};

/// Units that are read.
const UNIT_LIMIT: usize = 8192;

/// Paths of one unit that are looked up.
const PATH_LIMIT: usize = 256;

/// Collects the units of the observed cgroups whose files have settings about
/// devices, or that have a device program attached at or below their cgroup. Empty
/// if systemd does not run, sd_booted(3).
pub(super) fn collect(
    options: &Options,
    seen: &[VisitedCgroup],
    programs: &mut ProgramCache,
    log: &mut Log,
) -> Vec<Unit> {
    let running = options.unit_root.join("run/systemd/system");
    match Dir::open(&running) {
        Ok(_) => {}
        // Something else than a directory is there: systemd made none.
        Err(Errno::ENOTDIR) => return Vec::new(),
        Err(errno) if is_absence(errno) => return Vec::new(),
        // It may run.
        Err(errno) => log.failed(running.to_string_lossy(), errno),
    }
    let mut collector = Collector {
        root: &options.unit_root,
        search: Search::new(&options.unit_root, log),
        reader: UnitFiles::default(),
    };
    let with_programs = with_programs(seen);
    let mut units = Vec::new();
    for VisitedCgroup { cgroup, .. } in seen {
        let Some(name) = of_cgroup(cgroup.path.as_bytes()) else { continue };
        if log.out_of_time("reading unit files") {
            break;
        }
        let unit = collector.unit(name, &cgroup.path, log);
        let is_kept = with_programs.contains(cgroup.path.as_bytes()) || decides(&unit);
        // Those that are pinned for it and not attached are wanted too.
        let pinned = unit.pinned.iter().filter_map(|pinned| *pinned.program.known()?);
        programs.load(pinned.filter(|_| is_kept).collect::<Vec<_>>().into_iter(), log);
        units.extend(is_kept.then_some(unit));
        if units.len() == UNIT_LIMIT {
            log.add(ProblemCode::TooMany, "systemd's units", format!("only {UNIT_LIMIT} were read"), "");
            break;
        }
    }
    units
}

/// The cgroups at or below which a program is attached, or may be.
fn with_programs(seen: &[VisitedCgroup]) -> HashSet<&[u8]> {
    let mut found = HashSet::new();
    let is_bare = |own: &Answer<Attached>| own.known().is_some_and(|own| own.programs.is_empty());
    for VisitedCgroup { cgroup, .. } in seen.iter().filter(|seen| !is_bare(&seen.cgroup.own)) {
        for path in CgroupPath::new(&cgroup.path).upwards() {
            if !found.insert(path.as_bytes()) {
                break;
            }
        }
    }
    found
}

/// Whether a unit's files say anything about devices.
fn decides(unit: &Unit) -> bool {
    let mut lines = unit.files.iter().flat_map(|file| file.text.as_bytes().split(|byte| *byte == b'\n'));
    lines.any(|line| {
        [&b"BPF"[..], b"Device", b"Private", b"Protect"].iter().any(|start| line.starts_with(start))
    })
}

/// Whether lines of a unit's file say which devices it may use.
fn names_devices(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Device"))
}

struct Collector<'a> {
    root: &'a Path,
    search: Search,
    reader: UnitFiles,
}

impl Collector<'_> {
    fn unit(&mut self, name: &str, cgroup: &Text, log: &mut Log) -> Unit {
        let fragment = self.search.fragment(name);
        let mut unit = Unit {
            name: name.into(),
            cgroup: cgroup.clone(),
            fragment: fragment.as_deref().map(|path| self.shown(path)),
            unread: self.search.unread().to_vec(),
            ..Unit::default()
        };
        let section = UnitKind::of(name).map(UnitKind::section).unwrap_or_default();
        let drop_ins = self.search.drop_ins(name, log, &mut unit.unread);
        for (path, is_fragment) in
            fragment.iter().map(|path| (path, true)).chain(drop_ins.iter().map(|path| (path, false)))
        {
            let path_shown = self.shown(path);
            match self.reader.lines(path, section) {
                Ok(Some(text)) if text.is_empty() => {}
                Ok(Some(text)) => {
                    let changed = names_devices(text.as_bytes()).then(|| modified_at(path));
                    let changed = changed.and_then(|time| log.there(path.to_string_lossy(), time));
                    unit.devices_changed_at = unit.devices_changed_at.max(changed);
                    unit.files.push(ConfigFile {
                        path: path_shown,
                        text: text.into(),
                        ..ConfigFile::default()
                    });
                }
                Ok(None) if is_fragment => unit.unread.push(format!("{path_shown} is masked")),
                // An empty drop-in, or a link to /dev/null, hides others.
                Ok(None) => {}
                Err(errno) => {
                    log.failed(path.to_string_lossy(), errno);
                    unit.unread.push(format!("{path_shown}: {}", errno.desc()));
                }
            }
        }
        let settings = Settings::of(&unit);
        unit.nodes = self.nodes(&settings);
        let paths = settings.programs.into_iter().take(PATH_LIMIT);
        unit.pinned = paths.map(|path| PinnedProgram { program: self.pinned(&path), path }).collect();
        unit
    }

    /// The device program that is pinned at a path.
    fn pinned(&self, path: &str) -> Answer<Option<u32>> {
        if path.contains('%') {
            return Answer::Missing("the path has specifiers".to_owned());
        }
        let path = self.root.join(path.trim_start_matches('/'));
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Answer::Known(None) };
        // No name in a file system has a NUL byte.
        let Ok(name) = CString::new(name.as_bytes()) else { return Answer::Known(None) };
        let found = match Dir::open(above) {
            Ok(above) => bpf::pinned(above.as_fd(), &name).and_then(|found| bpf::program_info(found.as_fd())),
            Err(Errno::ENOTDIR) => return Answer::Known(None),
            Err(errno) if is_absence(errno) => return Answer::Known(None),
            Err(errno) => return Answer::Missing(errno.desc().to_owned()),
        };
        match found {
            Ok(info) if info.kind == CGROUP_DEVICE_PROGRAM => Answer::Known(Some(info.id)),
            Ok(_) => Answer::Missing("it is no device program".to_owned()),
            Err(error) if error.is_gone() => Answer::Known(None),
            Err(error) => Answer::Missing(error.to_string()),
        }
    }

    /// A path as it is on the node.
    fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.root).unwrap_or(path);
        format!("/{}", below.to_string_lossy().trim_start_matches('/'))
    }

    fn nodes(&self, settings: &Settings) -> Vec<NamedNode> {
        let mut paths: Vec<String> = settings.allow.iter().map(|allow| allow.device.clone()).collect();
        paths.retain(|path| path.starts_with("/dev/"));
        paths.sort_unstable();
        paths.dedup();
        paths.truncate(PATH_LIMIT);
        paths.into_iter().map(|path| NamedNode { device: device(self.root, &path), path }).collect()
    }
}

/// The device that a path leads to; it is never opened.
fn device(root: &Path, path: &str) -> Answer<Option<DeviceNumber>> {
    // No name in a file system has a NUL byte.
    let Ok(name) = CString::new(path.trim_start_matches('/')) else { return Answer::Known(None) };
    let stat = Dir::open(root).and_then(|root| stat_at(&root, &name));
    let number = |kind, (major, minor)| Answer::Known(Some(DeviceNumber { kind, major, minor }));
    match stat {
        Ok(stat) if stat.kind == FileKind::Char => number(DeviceType::Char, stat.rdev),
        Ok(stat) if stat.kind == FileKind::Block => number(DeviceType::Block, stat.rdev),
        // A path that leads nowhere stands for no device, as systemd takes it.
        Ok(_) | Err(Errno::ENOTDIR | Errno::ELOOP) => Answer::Known(None),
        Err(errno) if is_absence(errno) => Answer::Known(None),
        Err(errno) => Answer::Missing(errno.desc().to_owned()),
    }
}
