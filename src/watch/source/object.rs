//! The kernel side, loaded: maps filled, tracepoints attached, the ring open.
//!
//! Everything is held by descriptors of this process: when it ends, however it
//! ends, the kernel detaches and removes all of it.

use std::os::fd::AsFd as _;
use std::thread;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::{Iter, Program, RawTracePoint};
use aya::{Btf, Ebpf};

use super::probes::{ENVIRON, Mode};
use super::record::{NAME, OTHERS};
use super::session::{Prepared, Session};
use crate::model::VARIABLES;
use crate::observe::programs::kernel_types::KernelTypes;
use crate::sys::heap;
use crate::sys::iter::Iterator as Link;
use crate::watch::WatchError;

/// Compiled from `bpf/watch.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/watch.bpf.o");

/// Programs at tracepoints.
const TRACEPOINTS: [(&str, &str); 3] =
    [("on_exec", "sched_process_exec"), ("on_fork", "sched_process_fork"), ("on_exit", "sched_process_exit")];

/// What tells moves to other cgroups: the program at the kernel's tracepoint, and
/// the one that finds where processes are before. Without them the rest works as
/// well.
const MOVES: [&str; 2] = ["on_move", "find_homes"];
const MOVER: &str = "cgroup_attach_task";

/// What of moves to other cgroups is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// That there was one.
    pub(super) told: bool,
    /// Where the process was before.
    pub(super) from: bool,
}

/// The loaded object.
pub(super) struct Kernel {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    mode: Mode,
    moves: Moves,
    pub(super) session: Option<Session>,
}

impl Kernel {
    /// Loads the object in the wanted mode, else in the first that this kernel
    /// takes. Since Linux 5.8 with BTF.
    ///
    /// # Errors
    ///
    /// Why none can be loaded: the kernel is too old or has no BTF, or a right
    /// is missing (`CAP_BPF` and `CAP_PERFMON`, or `CAP_SYS_ADMIN`).
    pub(super) fn load(wanted: Option<Mode>) -> Result<Self, WatchError> {
        let (mut ebpf, mode, session) = open_any(wanted)?;
        heap::give_back();
        let ring = ebpf.take_map("ring").ok_or(WatchError::Object("ring"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| refused(&error))?;
        let mut kernel = Self { ebpf, ring, mode, moves: Moves::default(), session };
        let mut losses: HashMap<_, u32, u64> = typed(kernel.map("losses")?)?;
        put(losses.insert(OTHERS, 0, 0))?;
        kernel.fill_variables()?;
        Ok(kernel)
    }

    /// How functions are watched.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    fn fill_variables(&mut self) -> Result<(), WatchError> {
        // What says which job a process belongs to chooses no devices.
        let variables = (0..).zip(VARIABLES);
        for (index, variable) in variables.filter(|(_, name)| !name.starts_with("SLURM")) {
            let mut name = [0; NAME];
            // Room for the end must stay: see NAME_SIZE in bpf/gpumap.h.
            let room = name.get_mut(..variable.len()).filter(|_| variable.len() < NAME - 1);
            room.ok_or(WatchError::Object("variables"))?.copy_from_slice(variable.as_bytes());
            let mut names: HashMap<_, [u8; NAME], u32> = typed(self.map("variables")?)?;
            put(names.insert(name, index, 0))?;
            let beginning = *name.first_chunk::<8>().ok_or(WatchError::Object("beginnings"))?;
            let mut beginnings: HashMap<_, [u8; 8], u32> = typed(self.map("beginnings")?)?;
            put(beginnings.insert(beginning, 1, 0))?;
        }
        Ok(())
    }

    /// Whom to follow; `own` is never followed.
    pub(super) fn follow(
        &mut self,
        all: bool,
        pids: &[u32],
        cgroups: &[u64],
        own: u32,
    ) -> Result<(), WatchError> {
        let mut map: HashMap<_, u32, u32> = typed(self.map("pids")?)?;
        for pid in pids {
            put(map.insert(pid, 1, 0))?;
        }
        let mut map: HashMap<_, u64, u32> = typed(self.map("cgroups")?)?;
        for id in cgroups {
            put(map.insert(id, 1, 0))?;
        }
        let mut map: Array<_, u64> = typed(self.map("scope")?)?;
        put(map.set(0, u64::from(all), 0))?;
        put(map.set(1, u64::from(!cgroups.is_empty()), 0))?;
        put(map.set(2, u64::from(own), 0))
    }

    /// Begins to report processes that start, execute and end.
    pub(super) fn attach_tracepoints(&mut self) -> Result<(), WatchError> {
        for (name, tracepoint) in TRACEPOINTS {
            self.attach_raw(name, tracepoint)?;
        }
        self.moves.told = self.attach_raw(MOVES[0], MOVER).is_ok();
        self.moves.from = self.moves.told && self.find_homes().is_ok();
        Ok(())
    }

    fn attach_raw(&mut self, name: &'static str, tracepoint: &str) -> Result<(), WatchError> {
        let program: &mut RawTracePoint =
            self.program(name)?.try_into().map_err(|_| WatchError::Object(name))?;
        let attached = program.attach(tracepoint);
        attached.map(drop).map_err(|error| WatchError::Attach(tracepoint.to_owned(), chain(&error)))
    }

    /// Tells the kernel side where every process is.
    fn find_homes(&mut self) -> Result<(), WatchError> {
        let name = MOVES[1];
        let program: &mut Iter = self.program(name)?.try_into().map_err(|_| WatchError::Object(name))?;
        let fd = program.fd().map_err(|error| refused(&error))?;
        let run = Link::over_all(fd.as_fd()).and_then(|link| link.open());
        let mut file = run.map_err(|error| refused(&error))?;
        // It writes to a map alone: there is nothing to read, once all are seen.
        std::io::copy(&mut file, &mut std::io::sink()).map(drop).map_err(|error| refused(&error))
    }

    /// What of moves to other cgroups is told.
    pub(super) fn moves(&self) -> Moves {
        self.moves
    }

    /// The ring, to wait for it and to read it.
    pub(super) fn ring(&mut self) -> &mut RingBuf<MapData> {
        &mut self.ring
    }

    /// How many records were lost since the beginning.
    pub(super) fn lost(&mut self) -> u64 {
        let Ok(map) = self.map("lost") else { return 0 };
        let Ok(map) = Array::<_, u64>::try_from(map) else { return 0 };
        map.get(&0, 0).unwrap_or(0)
    }

    /// The same by the account that lost them, [`OTHERS`] among them. Not fewer
    /// than [`Self::lost`] told before.
    pub(super) fn losses(&mut self) -> Vec<(u32, u64)> {
        let Ok(map) = self.map("losses") else { return Vec::new() };
        let Ok(map) = HashMap::<_, u32, u64>::try_from(map) else { return Vec::new() };
        map.iter().filter_map(Result::ok).collect()
    }

    fn map(&mut self, name: &'static str) -> Result<&mut aya::maps::Map, WatchError> {
        self.ebpf.map_mut(name).ok_or(WatchError::Object(name))
    }

    /// A program of the object.
    pub(super) fn program(&mut self, name: &'static str) -> Result<&mut Program, WatchError> {
        self.ebpf.program_mut(name).ok_or(WatchError::Object(name))
    }
}

/// Loads the object in the wanted mode, or in the first that works. The kernel's
/// types are gone from memory before the ring comes into it.
fn open_any(wanted: Option<Mode>) -> Result<(Ebpf, Mode, Option<Session>), WatchError> {
    let types = KernelTypes::shared().map_err(|error| WatchError::NoBtf(chain(&error)))?;
    let mut result = Err(WatchError::Object("mode"));
    for mode in Mode::ALL.into_iter().filter(|mode| wanted.is_none_or(|wanted| wanted == *mode)) {
        result = open(mode, &types).map(|(ebpf, session)| (ebpf, mode, session));
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Both objects are made ready at the same time, and then loaded at the same
/// time: the kernel takes its time to look at what the session does.
fn open(mode: Mode, types: &KernelTypes) -> Result<(Ebpf, Option<Session>), WatchError> {
    let is_session = mode == Mode::Session;
    let btf = types.btf();
    let (ebpf, prepared) = both(
        || types.load(|loader| loader.load(OBJECT)).map_err(|error| refused(&error)),
        move || if is_session { Prepared::new(btf).map(Some) } else { Ok(None) },
    );
    let (mut ebpf, prepared) = (ebpf?, prepared?);
    let Some(prepared) = prepared else {
        load_programs(&mut ebpf, btf, true)?;
        return Ok((ebpf, None));
    };
    let prepared = prepared.with_maps(&ebpf)?;
    let (loaded, session) = both(|| load_programs(&mut ebpf, btf, false), || prepared.load());
    loaded?;
    Ok((ebpf, Some(session?)))
}

/// Does one thing here and another beside.
fn both<A, B: Send>(here: impl FnOnce() -> A, beside: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let beside = scope.spawn(beside);
        (here(), beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Loads the programs of an object; those of the C library's functions only if
/// they are wanted.
fn load_programs(ebpf: &mut Ebpf, btf: &Btf, environ: bool) -> Result<(), WatchError> {
    let served = |name: &str| ENVIRON.iter().any(|probe| probe.exit == name || probe.entry == Some(name));
    for (name, program) in ebpf.programs_mut().filter(|(name, _)| environ || !served(name)) {
        let loaded = match program {
            Program::UProbe(program) => program.load(),
            Program::RawTracePoint(program) => program.load(),
            Program::Iter(program) => program.load("task", btf),
            _ => Ok(()),
        };
        // Those of moves that are not loaded are not attached either.
        loaded.or_else(|error| if MOVES.contains(&name) { Ok(()) } else { Err(refused(&error)) })?;
    }
    Ok(())
}

fn refused(error: &dyn std::error::Error) -> WatchError {
    WatchError::Load(chain(error))
}

fn typed<'m, T>(map: &'m mut aya::maps::Map) -> Result<T, WatchError>
where
    T: TryFrom<&'m mut aya::maps::Map, Error = aya::maps::MapError>,
{
    T::try_from(map).map_err(|error| refused(&error))
}

fn put(result: Result<(), aya::maps::MapError>) -> Result<(), WatchError> {
    result.map_err(|error| refused(&error))
}

/// An error with its causes on one line; the verifier's log is for nobody.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}
