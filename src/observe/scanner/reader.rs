//! One process of `/proc`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Glimpse, ScanError, tables};
use crate::observation::{Answer, Environment};
use crate::observe::Options;
use crate::observe::hierarchy::Hierarchy;
use crate::observe::process::refusals::{Kind, Refusals};
use crate::observe::process::{STAT_LIMIT, at_exec};
use crate::observe::procfile::{cgroup_line, parse_stat};
use crate::sys::dir::Dir;
use crate::sys::stat::stat_at;

/// Bytes read of `cgroup`, some fifteen lines.
const CGROUP_LIMIT: usize = 256 << 10;
/// Times that an environment is read that is not there.
const TRIES: usize = 3;
const NO_ENVIRONMENT: &str = "it executes a program or is ending: it has no environment";

/// Reads processes; what one needs is used again for the next.
#[derive(Debug)]
pub(super) struct Reader {
    proc: PathBuf,
    root: Dir,
    hierarchy: Option<Hierarchy>,
    /// Whether pids of this `/proc` are those of system calls.
    is_own: bool,
    /// Ids of cgroups by their lines in `/proc/PID/cgroup`, for one scan.
    cgroups: HashMap<Vec<u8>, Option<u64>>,
    refusals: Refusals,
    text: Vec<u8>,
}

/// What a process looks like from outside its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) starts: (u64, u64),
    env_end: u64,
}

impl Reader {
    pub(super) fn new(options: &Options) -> Result<Self, ScanError> {
        let proc = options.proc.clone();
        let refused = |errno| ScanError::Proc(proc.display().to_string(), errno);
        let root = Dir::open(&proc).map_err(refused)?;
        // Without cgroup2 there are no ids that mean anything.
        let hierarchy = Hierarchy::find(options).ok().filter(|hierarchy| !hierarchy.is_legacy());
        let (is_own, cgroups) = (is_own(options), HashMap::new());
        Ok(Self { proc, root, hierarchy, is_own, cgroups, refusals: Refusals::default(), text: Vec::new() })
    }

    /// Whether there is a cgroup2 hierarchy.
    pub(super) fn has_cgroups(&self) -> bool {
        self.hierarchy.is_some()
    }

    /// Forgets the cgroups: their names may be others' by now.
    pub(super) fn forget(&mut self) {
        self.cgroups.clear();
    }

    /// All pids.
    pub(super) fn pids(&self) -> Result<Vec<u32>, ScanError> {
        let mut pids = Vec::new();
        let visit = |_: &std::ffi::CStr, pid| {
            pids.push(pid);
            true
        };
        let listed = self.root.numbers(c".", visit);
        listed.map_err(|errno| ScanError::Proc(self.proc.display().to_string(), errno))?;
        Ok(pids)
    }

    /// This very process.
    pub(super) fn own(&mut self) -> Option<Glimpse> {
        self.process(std::process::id())
    }

    /// One process; `None` if it is gone, has ended or is a thread of the
    /// kernel.
    pub(super) fn process(&mut self, pid: u32) -> Option<Glimpse> {
        let dir = self.root.child(pid.to_string().as_str()).ok()?;
        let uid = dir.stat().ok()?.uid;
        dir.read_piece(c"stat", &mut self.text, STAT_LIMIT).ok()?;
        let stat = parse_stat(&self.text).filter(|stat| !stat.is_kernel_thread())?;
        let (start_time, threads, comm) = (stat.start_time, stat.threads, stat.comm.into());
        let mut program = Program { starts: stat.starts, env_end: stat.env_end };
        let living = if stat.is_ending() { Some(self.living_thread(&dir)?) } else { None };
        let thread = living.as_ref().map_or(&dir, |(_, thread)| thread);
        if living.is_some() {
            program = self.program(thread)?;
        }
        let at_exec = self.environment(thread, &mut program)?;
        let cgroup = self.cgroup(&dir);
        let first = living.as_ref().map_or(pid, |(tid, _)| *tid);
        let several = threads > 1 && self.is_own;
        let devices = tables::devices(&dir, thread, first, several);
        let devices = match devices {
            Ok(devices) => Answer::Known(devices),
            Err(errno) => Answer::Missing(self.refusals.why(Kind::Devices, errno)),
        };
        Some(Glimpse { pid, start_time, program: program.starts, uid, comm, cgroup, at_exec, devices })
    }

    /// The environment of a process that is known; `None` if it is gone.
    pub(super) fn at_exec(&mut self, pid: u32, start_time: u64) -> Option<(Program, Answer<Environment>)> {
        let dir = self.root.child(pid.to_string().as_str()).ok()?;
        dir.read_piece(c"stat", &mut self.text, STAT_LIMIT).ok()?;
        let stat = parse_stat(&self.text).filter(|stat| stat.start_time == start_time)?;
        let thread = if stat.is_ending() { self.living_thread(&dir)?.1 } else { dir };
        let mut program = self.program(&thread)?;
        let at_exec = self.environment(&thread, &mut program)?;
        Some((program, at_exec))
    }

    fn program(&mut self, thread: &Dir) -> Option<Program> {
        thread.read_piece(c"stat", &mut self.text, STAT_LIMIT).ok()?;
        let stat = parse_stat(&self.text)?;
        Some(Program { starts: stat.starts, env_end: stat.env_end })
    }

    /// An environment that has no end is none, though it reads as an empty one.
    fn environment(&mut self, thread: &Dir, program: &mut Program) -> Option<Answer<Environment>> {
        for _ in 0..TRIES {
            let found = at_exec::read(thread, &mut self.text, &self.refusals);
            let is_empty = found.known().is_some_and(|one| *one == Environment::default());
            if !is_empty || program.env_end != 0 {
                return Some(found);
            }
            *program = self.program(thread)?;
        }
        Some(Answer::Missing(NO_ENVIRONMENT.to_owned()))
    }

    /// The directory of a thread that goes on without its main thread.
    fn living_thread(&mut self, dir: &Dir) -> Option<(u32, Dir)> {
        let tasks = dir.child(c"task").ok()?;
        let (mut found, mut text) = (None, std::mem::take(&mut self.text));
        let visit = |name: &std::ffi::CStr, tid| {
            let thread = tasks.child(name).ok();
            let lives = |thread: &Dir| {
                let read = thread.read_piece(c"stat", &mut text, STAT_LIMIT);
                read.is_ok() && parse_stat(&text).is_some_and(|stat| !stat.is_ending())
            };
            found = thread.filter(lives).map(|thread| (tid, thread));
            found.is_none()
        };
        let listed = tasks.numbers(c".", visit);
        self.text = text;
        listed.ok().and(found)
    }

    fn cgroup(&mut self, dir: &Dir) -> Option<u64> {
        let hierarchy = self.hierarchy.as_ref()?;
        dir.read_piece(c"cgroup", &mut self.text, CGROUP_LIMIT).ok()?;
        let line = cgroup_line(&self.text, None)?;
        if let Some(known) = self.cgroups.get(line) {
            return *known;
        }
        let id = || {
            let inside = hierarchy.mount.inside(line)?;
            let below = inside.strip_prefix(b"/").unwrap_or(&inside);
            let path = Path::new(".").join(OsStr::from_bytes(below));
            Some(hierarchy.handle.child(&path).ok()?.stat().ok()?.inode)
        };
        let id = id();
        self.cgroups.insert(line.to_vec(), id);
        id
    }
}

/// Whether the proc file system that is looked at is gpumap's own.
pub(super) fn is_own(options: &Options) -> bool {
    let place = |path: &std::path::Path| {
        let dir = crate::sys::dir::Dir::open(path).ok()?;
        let stat = stat_at(dir.as_fd(), c"").ok()?;
        Some((stat.dev, stat.inode))
    };
    place(&options.proc).is_some_and(|one| Some(one) == place("/proc".as_ref()))
}
