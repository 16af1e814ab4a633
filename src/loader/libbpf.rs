//! Loads objects with libbpf through libbpf-rs, the engine of the cargo feature
//! `libbpf`.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{
    CgroupIterOpts, CgroupIterOrder, Iter, IterOpts, Link, Map, MapCore as _, MapFlags, MapHandle, Object,
    ObjectBuilder, OpenObject, ProgramAttachType, ProgramMut, Result, RingBuffer, RingBufferBuilder,
    UprobeMultiOpts, UprobeOpts, set_print,
};

use super::{
    AttachedProbes, Entries, FunctionEntry, Iterate, IteratorScope, LoadError, Loaded, Loader, ObjectSpec,
    Ring, interface,
};
use crate::sys::libbpf::expect_session;

/// libbpf. It reads the kernel's types for each object anew.
pub(super) struct Libbpf(());

impl Libbpf {
    /// Makes the engine, and keeps libbpf from writing messages to stderr.
    pub(super) fn new() -> Self {
        set_print(None);
        Self(())
    }
}

impl Loader for Libbpf {
    /// Loads an object. libbpf loads it as a whole, so if the kernel refuses it, it
    /// is loaded again without the optional programs.
    fn load(&self, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let object = load(wanted, &[]).or_else(|error| match wanted.optional {
            [] => Err(error),
            optional => load(wanted, optional),
        })?;
        let session = wanted.session.map(|session| load_session(session, &object)).transpose()?;
        let session = session.zip(wanted.session.map(|wanted| wanted.session));
        let multi = (!wanted.multi.is_empty()).then(|| load_multi(wanted, &object)).transpose()?;
        Ok(Box::new(Programs::new(object, session, multi)))
    }
}

fn load(wanted: &ObjectSpec<'_>, without: &[&str]) -> Result<Object, LoadError> {
    let mut object = open(wanted.object)?;
    for mut map in object.maps_mut() {
        if let Some((_, capacity)) = wanted.capacity.filter(|(name, _)| map.name() == OsStr::new(name)) {
            map.set_max_entries(capacity).map_err(|error| LoadError::refused(&error))?;
        }
    }
    let left_out = || wanted.left_out.iter().chain(without);
    for mut program in object.progs_mut() {
        let is_wanted = left_out().all(|name| program.name() != OsStr::new(name));
        program.set_autoload(is_wanted);
    }
    object.load().map_err(|error| LoadError::refused(&error))
}

/// Loads the session program with the maps of the object that is loaded.
fn load_session(wanted: &interface::Object, with: &Object) -> Result<Object, LoadError> {
    let mut object = open_with(wanted, with)?;
    for mut program in object.progs_mut() {
        expect_session(&mut program).map_err(|error| LoadError::refused(&error))?;
    }
    object.load().map_err(|error| LoadError::refused(&error))
}

/// Loads the programs for links over many functions, with the maps of the object that is
/// loaded.
fn load_multi(wanted: &ObjectSpec<'_>, with: &Object) -> Result<Object, LoadError> {
    let mut object = open_with(wanted.object, with)?;
    for mut program in object.progs_mut() {
        let is_wanted = wanted.multi.iter().any(|name| program.name() == OsStr::new(name));
        program.set_autoload(is_wanted);
        if is_wanted {
            program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
        }
    }
    object.load().map_err(|error| LoadError::refused(&error))
}

/// Opens an object that shares the maps of one that is loaded.
fn open_with(wanted: &interface::Object, with: &Object) -> Result<OpenObject, LoadError> {
    let mut object = open(wanted)?;
    for mut map in object.maps_mut() {
        if let Some(shared) = with.maps().find(|shared| shared.name() == map.name()) {
            map.reuse_fd(shared.as_fd()).map_err(|error| LoadError::refused(&error))?;
        }
    }
    Ok(object)
}

fn open(object: &interface::Object) -> Result<OpenObject, LoadError> {
    ObjectBuilder::default().open_memory(object.code).map_err(|error| LoadError::refused(&error))
}

/// The programs and maps of an object.
struct Programs {
    object: Object,
    /// An object, and the name of its session program.
    session: Option<(Object, &'static str)>,
    /// An object whose programs have one link for many functions.
    multi: Option<Object>,
    /// Links of tracepoints.
    links: Vec<Link>,
}

impl Programs {
    fn new(object: Object, session: Option<(Object, &'static str)>, multi: Option<Object>) -> Self {
        Self { object, session, multi, links: Vec::new() }
    }

    fn map(&self, name: &'static str) -> Result<Map<'_>, LoadError> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == OsStr::new(name)).ok_or(LoadError::Missing(name))
    }
}

/// A program of an object.
fn program<'o>(object: &'o Object, name: &'static str) -> Result<ProgramMut<'o>, LoadError> {
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
        self.links.push(link);
        Ok(())
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

/// Records that are kept at most: the others wait in the ring.
const KEPT: usize = 256;

type Records = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A ring buffer, and records that libbpf has taken from it.
struct Queue {
    ring: RingBuffer<'static>,
    map: MapHandle,
    records: Records,
}

impl Queue {
    /// A reader of this map.
    ///
    /// # Errors
    ///
    /// The map is no ring buffer, or there is no memory to map it.
    fn new(map: MapHandle) -> Result<Self> {
        let records = Records::default();
        let keep = Arc::clone(&records);
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |record| {
            locked(&keep).push_back(record.to_vec());
            0
        })?;
        let ring = builder.build()?;
        Ok(Self { ring, map, records })
    }

    fn next(&self) -> Option<Vec<u8>> {
        let next = locked(&self.records).pop_front();
        if next.is_some() {
            return next;
        }
        self.ring.consume_raw_n(KEPT);
        locked(&self.records).pop_front()
    }
}

impl Ring for Queue {
    fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        while let Some(record) = self.next() {
            if !take(&record) {
                return false;
            }
        }
        true
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

fn locked(records: &Mutex<VecDeque<Vec<u8>>>) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}
