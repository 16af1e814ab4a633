//! The programs and maps of one object that libbpf has loaded.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::path::Path;

use libbpf_rs::{
    CgroupIterOpts, CgroupIterOrder, Iter, IterOpts, Link, Map, MapCore as _, MapFlags, MapHandle, Object,
    ProgramMut, UprobeMultiOpts, UprobeOpts,
};

use super::ring::Queue;
use crate::loader::{
    AttachedProbes, Entries, FunctionEntry, Iterate, IteratorScope, LoadError, Loaded, Ring,
};
use crate::sys::bpf;

/// The programs and maps of an object.
pub(super) struct Programs {
    object: Object,
    /// An object, and the name of its session program.
    session: Option<(Object, &'static str)>,
    /// An object whose programs have one link for many functions.
    multi: Option<Object>,
    /// Links of tracepoints and of functions of the kernel, with the names of their programs.
    links: Vec<(&'static str, Link)>,
}

impl Programs {
    pub(super) fn new(
        object: Object,
        session: Option<(Object, &'static str)>,
        multi: Option<Object>,
    ) -> Self {
        Self { object, session, multi, links: Vec::new() }
    }

    fn map(&self, name: &'static str) -> Result<Map<'_>, LoadError> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == OsStr::new(name)).ok_or(LoadError::Missing(name))
    }
}

/// A program of an object.
pub(super) fn program<'o>(object: &'o Object, name: &'static str) -> Result<ProgramMut<'o>, LoadError> {
    let mut programs = object.progs_mut();
    programs.find(|program| program.name() == OsStr::new(name)).ok_or(LoadError::Missing(name))
}

impl Loaded for Programs {
    fn put(&mut self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), LoadError> {
        self.map(map)?.update(key, value, MapFlags::ANY).map_err(refused)
    }

    fn remove(&mut self, map: &'static str, key: &[u8]) -> Result<(), LoadError> {
        match self.map(map)?.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(refused(error)),
            _ => Ok(()),
        }
    }

    fn entries(&self, map: &'static str) -> Result<Entries, LoadError> {
        let map = self.map(map)?;
        let values = map.keys().map(|key| Ok((map.lookup(&key, MapFlags::ANY).map_err(refused)?, key)));
        let values: Result<Vec<_>, LoadError> = values.collect();
        // An entry that was deleted since has no value.
        Ok(values?.into_iter().filter_map(|(value, key)| Some((key, value?))).collect())
    }

    fn ring(&mut self, map: &'static str) -> Result<Box<dyn Ring>, LoadError> {
        let map = MapHandle::try_from(&self.map(map)?).map_err(refused)?;
        Ok(Box::new(Queue::new(map).map_err(refused)?))
    }

    fn attach_tracepoint(&mut self, name: &'static str, tracepoint: &str) -> Result<(), LoadError> {
        let link = program(&self.object, name)?.attach_raw_tracepoint(tracepoint).map_err(refused)?;
        self.links.push((name, link));
        Ok(())
    }

    fn attach_kernel(&mut self, name: &'static str, function: &str) -> Result<(), LoadError> {
        let program = program(&self.object, name)?;
        let section = program.section().as_encoded_bytes();
        let link = match section.starts_with(b"fexit") {
            true => program.attach_trace(),
            false => program.attach_kprobe(section.starts_with(b"kret"), function),
        };
        self.links.push((name, link.map_err(refused)?));
        Ok(())
    }

    fn missed(&self, name: &'static str) -> Result<u64, LoadError> {
        let mut programs = self.object.progs();
        let program = programs.find(|program| program.name() == OsStr::new(name));
        let program = program.ok_or(LoadError::Missing(name))?;
        let plain = |error: bpf::BpfError| LoadError::Refused(error.to_string());
        let mut all = bpf::program_misses(program.as_fd()).map_err(plain)?.unwrap_or_default();
        for (_, link) in self.links.iter().filter(|(known, _)| *known == name) {
            all += bpf::probe_misses(link.as_fd()).map_err(plain)?.unwrap_or_default();
        }
        Ok(all)
    }

    fn attach_function(
        &mut self,
        name: &'static str,
        file: &Path,
        entry: FunctionEntry,
        pid: Option<u32>,
    ) -> Result<AttachedProbes, LoadError> {
        let program = program(&self.object, name)?;
        let options =
            UprobeOpts { retprobe: is_at_return(&program), cookie: entry.cookie, ..UprobeOpts::default() };
        let link = program.attach_uprobe_with_opts(process(pid), file, size(entry.offset)?, options);
        // A descriptor of the link, and one of its event.
        link.map(|link| AttachedProbes::new(link, 2)).map_err(refused)
    }

    fn attach_session(
        &self,
        file: &Path,
        entries: &[FunctionEntry],
        pid: Option<u32>,
    ) -> Result<AttachedProbes, LoadError> {
        let (session, name) = self.session.as_ref().ok_or(LoadError::Missing("session"))?;
        let options = UprobeMultiOpts { session: true, ..many(entries)? };
        let link = program(session, name)?.attach_uprobe_multi_with_opts(process(pid), file, "", options);
        link.map(|link| AttachedProbes::new(link, 1)).map_err(refused)
    }

    fn attach_multi(
        &self,
        name: &'static str,
        file: &Path,
        entries: &[FunctionEntry],
    ) -> Result<AttachedProbes, LoadError> {
        let program = program(self.multi.as_ref().ok_or(LoadError::Missing(name))?, name)?;
        let options = UprobeMultiOpts { retprobe: is_at_return(&program), ..many(entries)? };
        let link = program.attach_uprobe_multi_with_opts(process(None), file, "", options);
        link.map(|link| AttachedProbes::new(link, 1)).map_err(refused)
    }

    fn iterator(
        &mut self,
        name: &'static str,
        over: IteratorScope<'_>,
    ) -> Result<Box<dyn Iterate>, LoadError> {
        let options = match over {
            IteratorScope::All => IterOpts::None,
            IteratorScope::Cgroups(fd) => IterOpts::Cgroup(CgroupIterOpts {
                fd,
                order: CgroupIterOrder::DescendantsPre,
                ..CgroupIterOpts::from_fd(fd)
            }),
        };
        let link = program(&self.object, name)?.attach_iter_with_opts(options).map_err(refused)?;
        Ok(Box::new(link))
    }
}

impl Iterate for Link {
    fn open(&self) -> Result<Box<dyn Read>, LoadError> {
        Ok(Box::new(Iter::new(self).map_err(refused)?))
    }
}

/// Whether a program is for the returns of functions.
fn is_at_return(program: &ProgramMut<'_>) -> bool {
    program.section().as_encoded_bytes().starts_with(b"uretprobe")
}

/// The functions of one link.
fn many(entries: &[FunctionEntry]) -> Result<UprobeMultiOpts, LoadError> {
    let offsets: Result<Vec<usize>, LoadError> = entries.iter().map(|entry| size(entry.offset)).collect();
    let cookies = entries.iter().map(|entry| entry.cookie).collect();
    Ok(UprobeMultiOpts { offsets: offsets?, cookies, ..UprobeMultiOpts::default() })
}

/// A process as libbpf names it: -1 for any.
fn process(pid: Option<u32>) -> i32 {
    pid.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(-1)
}

fn size(offset: u64) -> Result<usize, LoadError> {
    usize::try_from(offset).map_err(|error| LoadError::refused(&error))
}

fn refused(error: libbpf_rs::Error) -> LoadError {
    LoadError::refused(&error)
}
