//! The programs and maps of one object that aya has loaded.

use std::io::Read;
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use aya::programs::uprobe::{UProbeAttachPoint, UProbeScope};
use aya::programs::{Iter, Program, RawTracePoint, UProbe};

use super::many::{ManyProgram, descriptor};
use crate::loader::{
    AttachedProbes, Entries, FunctionEntry, Iterate, IteratorScope, LoadError, Loaded, Ring,
};
use crate::sys::bpf::{self, BpfError, Contents};
use crate::sys::iter::Iterator;

/// The programs and maps of an object.
pub(super) struct Programs {
    pub(super) ebpf: Ebpf,
    /// Those that have one link for many functions.
    pub(super) many: Vec<ManyProgram>,
    /// Links of programs at kprobes, whose misses the kernel counts.
    probes: Vec<(&'static str, OwnedFd)>,
}

impl Programs {
    pub(super) fn new(ebpf: Ebpf, many: Vec<ManyProgram>) -> Self {
        Self { ebpf, many, probes: Vec::new() }
    }

    fn program(&mut self, name: &'static str) -> Result<&mut Program, LoadError> {
        self.ebpf.program_mut(name).ok_or(LoadError::Missing(name))
    }

    fn map(&self, name: &'static str) -> Result<BorrowedFd<'_>, LoadError> {
        self.ebpf.map(name).and_then(descriptor).ok_or(LoadError::Missing(name))
    }
}

impl Loaded for Programs {
    fn put(&mut self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), LoadError> {
        bpf::put(self.map(map)?, key, value).map_err(refused)
    }

    fn remove(&mut self, map: &'static str, key: &[u8]) -> Result<(), LoadError> {
        bpf::remove(self.map(map)?, key).map_err(refused)
    }

    fn entries(&self, map: &'static str) -> Result<Entries, LoadError> {
        let map = self.map(map)?;
        let contents = bpf::map_info(map)
            .and_then(|info| bpf::contents(map, &info, bpf::ContentLimits::default()))
            .map_err(refused)?;
        match contents {
            Contents::Entries(entries) => Ok(entries),
            _ => Err(LoadError::Refused("a map cannot be listed".to_owned())),
        }
    }

    fn ring(&mut self, map: &'static str) -> Result<Box<dyn Ring>, LoadError> {
        let ring = self.ebpf.take_map(map).ok_or(LoadError::Missing(map))?;
        let ring = RingBuf::try_from(ring).map_err(|error| LoadError::refused(&error))?;
        Ok(Box::new(ring))
    }

    fn attach_tracepoint(&mut self, program: &'static str, tracepoint: &str) -> Result<(), LoadError> {
        let program: &mut RawTracePoint =
            self.program(program)?.try_into().map_err(|_| LoadError::Missing(program))?;
        program.attach(tracepoint).map(drop).map_err(|error| LoadError::refused(&error))
    }

    fn attach_kernel(&mut self, program: &'static str, function: &str) -> Result<(), LoadError> {
        let id = match self.program(program)? {
            Program::FExit(program) => {
                return program.attach().map(drop).map_err(|error| LoadError::refused(&error));
            }
            Program::KProbe(program) => program
                .attach(function, 0)
                .and_then(|_attached| program.info())
                .map_err(|error| LoadError::refused(&error))?
                .id(),
            _ => return Err(LoadError::Missing(program)),
        };
        match bpf::link_of(id) {
            Ok(link) => self.probes.extend(link.map(|link| (program, link))),
            // Without the right misses of probes are not counted.
            Err(error) if error.is_refused() => {}
            Err(error) => return Err(refused(error)),
        }
        Ok(())
    }

    fn missed(&self, program: &'static str) -> Result<u64, LoadError> {
        let loaded = self.ebpf.program(program).ok_or(LoadError::Missing(program))?;
        let fd = loaded.fd().map_err(|error| LoadError::refused(&error))?;
        let mut all = bpf::program_misses(fd.as_fd()).map_err(refused)?.unwrap_or_default();
        for (_, link) in self.probes.iter().filter(|(name, _)| *name == program) {
            all += bpf::probe_misses(link.as_fd()).map_err(refused)?.unwrap_or_default();
        }
        Ok(all)
    }

    fn attach_function(
        &mut self,
        program: &'static str,
        file: &Path,
        entry: FunctionEntry,
        pid: Option<u32>,
    ) -> Result<AttachedProbes, LoadError> {
        let scope = pid.and_then(NonZeroU32::new).map_or(UProbeScope::AllProcesses, UProbeScope::OneProcess);
        let program: &mut UProbe =
            self.program(program)?.try_into().map_err(|_| LoadError::Missing(program))?;
        // A kernel before 5.15 knows no cookies.
        let cookie = (entry.cookie != 0).then_some(entry.cookie);
        let point = UProbeAttachPoint { location: entry.offset.into(), cookie };
        let link = program.attach(point, file, scope).and_then(|id| program.take_link(id));
        // A descriptor of the link, and one of its event.
        link.map(|link| AttachedProbes::new(link, 2)).map_err(|error| LoadError::refused(&error))
    }

    fn attach_session(
        &self,
        file: &Path,
        entries: &[FunctionEntry],
        pid: Option<u32>,
    ) -> Result<AttachedProbes, LoadError> {
        let mut many = self.many.iter();
        let session = many.find(|program| program.is_session()).ok_or(LoadError::Missing("session"))?;
        session.attach(file, entries, pid).map(|link| AttachedProbes::new(link, 1))
    }

    fn attach_multi(
        &self,
        program: &'static str,
        file: &Path,
        entries: &[FunctionEntry],
    ) -> Result<AttachedProbes, LoadError> {
        let mut many = self.many.iter().filter(|program| !program.is_session());
        let program = many.find(|known| known.name == program).ok_or(LoadError::Missing(program))?;
        program.attach(file, entries, None).map(|link| AttachedProbes::new(link, 1))
    }

    fn iterator(
        &mut self,
        program: &'static str,
        over: IteratorScope<'_>,
    ) -> Result<Box<dyn Iterate>, LoadError> {
        let program: &mut Iter =
            self.program(program)?.try_into().map_err(|_| LoadError::Missing(program))?;
        let program = program.fd().map_err(|error| LoadError::refused(&error))?.as_fd();
        let iterator = match over {
            IteratorScope::All => Iterator::over_all(program),
            IteratorScope::Cgroups(top) => Iterator::over_cgroups(program, top),
        };
        Ok(Box::new(iterator.map_err(refused)?))
    }
}

impl Iterate for Iterator {
    fn open(&self) -> Result<Box<dyn Read>, LoadError> {
        Ok(Box::new(Self::open(self).map_err(refused)?))
    }
}

impl Ring for RingBuf<MapData> {
    fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        while let Some(record) = self.next() {
            if !take(&record) {
                return false;
            }
        }
        true
    }
}

fn refused(error: BpfError) -> LoadError {
    LoadError::refused(&error)
}
