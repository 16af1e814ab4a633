//! The kernel side, loaded: maps filled, tracepoints attached, the ring open.
//!
//! Everything is held by descriptors of this process: when it ends, however it
//! ends, the kernel detaches and removes all of it.

use std::path::Path;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::uprobe::UProbeScope;
use aya::programs::{Program, RawTracePoint, UProbe};
use aya::{Btf, Ebpf, EbpfLoader};

use super::WatchError;
use super::record::NAME;
use crate::observation::VARIABLES;

/// Compiled from `bpf/watch.bpf.c`; the second without sleepable programs.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/watch.bpf.o");
const PLAIN: &[u8] = aya::include_bytes_aligned!("../../bpf/watch_plain.bpf.o");

/// Programs at tracepoints.
const TRACEPOINTS: [(&str, &str); 3] =
    [("on_exec", "sched_process_exec"), ("on_fork", "sched_process_fork"), ("on_exit", "sched_process_exit")];

/// A function of a library, and the programs at its entry and return.
pub(super) struct Probe {
    /// The function.
    pub(super) function: &'static str,
    entry: Option<&'static str>,
    exit: &'static str,
}

/// Functions of the C library.
pub(super) const ENVIRON: [Probe; 4] = [
    Probe { function: "setenv", entry: Some("enter_setenv"), exit: "leave_any" },
    Probe { function: "putenv", entry: Some("enter_putenv"), exit: "leave_any" },
    Probe { function: "unsetenv", entry: Some("enter_unsetenv"), exit: "leave_any" },
    Probe { function: "clearenv", entry: Some("enter_clearenv"), exit: "leave_any" },
];

/// Functions of drivers' libraries.
pub(super) const DRIVERS: [Probe; 3] = [
    Probe { function: "cuInit", entry: None, exit: "leave_cu_init" },
    Probe { function: "hipInit", entry: None, exit: "leave_hip_init" },
    Probe { function: "hsa_init", entry: None, exit: "leave_hsa_init" },
];

/// The loaded object.
pub(super) struct Kernel {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    sleepable: bool,
}

impl Kernel {
    /// Loads the object, the sleepable one if this kernel takes it (Linux 6.0),
    /// else the other (Linux 5.8 with BTF).
    ///
    /// # Errors
    ///
    /// Why neither can be loaded: the kernel is too old or has no BTF, or a
    /// right is missing (`CAP_BPF` and `CAP_PERFMON`, or `CAP_SYS_ADMIN`).
    pub(super) fn load() -> Result<Self, WatchError> {
        let (mut ebpf, sleepable) = open_either()?;
        let ring = ebpf.take_map("ring").ok_or(WatchError::Object("ring"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| WatchError::Load(chain(&error)))?;
        let mut kernel = Self { ebpf, ring, sleepable };
        kernel.fill_variables()?;
        Ok(kernel)
    }

    /// Whether the programs at functions are sleepable.
    pub(super) fn is_sleepable(&self) -> bool {
        self.sleepable
    }

    fn fill_variables(&mut self) -> Result<(), WatchError> {
        let mut names: HashMap<_, [u8; NAME], u32> = typed(self.map("variables")?)?;
        // What says which job a process belongs to chooses no devices.
        let variables = (0..).zip(VARIABLES);
        for (index, variable) in variables.filter(|(_, name)| !name.starts_with("SLURM")) {
            let mut name = [0; NAME];
            // Room for the end must stay: see NAME_SIZE in bpf/gpumap.h.
            let room = name.get_mut(..variable.len()).filter(|_| variable.len() < NAME - 1);
            room.ok_or(WatchError::Object("variables"))?.copy_from_slice(variable.as_bytes());
            put(names.insert(name, index, 0))?;
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
            let program: &mut RawTracePoint =
                self.program(name)?.try_into().map_err(|_| WatchError::Object(name))?;
            program
                .attach(tracepoint)
                .map_err(|error| WatchError::Attach(tracepoint.to_owned(), chain(&error)))?;
        }
        Ok(())
    }

    /// Begins to report calls of a function of one file, in every process that
    /// maps it.
    pub(super) fn attach(&mut self, probe: &Probe, file: &Path, offset: u64) -> Result<(), WatchError> {
        // The return first: an entry without its return would stay behind.
        for name in std::iter::once(probe.exit).chain(probe.entry) {
            let program: &mut UProbe =
                self.program(name)?.try_into().map_err(|_| WatchError::Object(name))?;
            program
                .attach(offset, file, UProbeScope::AllProcesses)
                .map_err(|error| WatchError::Attach(probe.function.to_owned(), chain(&error)))?;
        }
        Ok(())
    }

    /// The ring, to wait for it and to read it.
    pub(super) fn ring(&mut self) -> &mut RingBuf<MapData> {
        &mut self.ring
    }

    /// Records that did not fit into the ring, since the beginning.
    pub(super) fn lost(&mut self) -> u64 {
        let Ok(map) = self.map("lost") else { return 0 };
        let Ok(map) = Array::<_, u64>::try_from(map) else { return 0 };
        map.get(&0, 0).unwrap_or(0)
    }

    fn map(&mut self, name: &'static str) -> Result<&mut aya::maps::Map, WatchError> {
        self.ebpf.map_mut(name).ok_or(WatchError::Object(name))
    }

    fn program(&mut self, name: &'static str) -> Result<&mut Program, WatchError> {
        self.ebpf.program_mut(name).ok_or(WatchError::Object(name))
    }
}

/// Loads the sleepable object, else the other; which one it was. The kernel's
/// types are gone from memory before the ring comes into it.
fn open_either() -> Result<(Ebpf, bool), WatchError> {
    let btf = Btf::from_sys_fs().map_err(|error| WatchError::NoBtf(chain(&error)))?;
    match open(OBJECT, &btf) {
        Ok(ebpf) => Ok((ebpf, true)),
        Err(_) => Ok((open(PLAIN, &btf)?, false)),
    }
}

/// Loads an object with all its programs.
fn open(bytes: &[u8], btf: &Btf) -> Result<Ebpf, WatchError> {
    let mut ebpf =
        EbpfLoader::new().btf(Some(btf)).load(bytes).map_err(|error| WatchError::Load(chain(&error)))?;
    for (_, program) in ebpf.programs_mut() {
        let loaded = match program {
            Program::UProbe(program) => program.load(),
            Program::RawTracePoint(program) => program.load(),
            _ => Ok(()),
        };
        loaded.map_err(|error| WatchError::Load(chain(&error)))?;
    }
    Ok(ebpf)
}

fn typed<'m, T>(map: &'m mut aya::maps::Map) -> Result<T, WatchError>
where
    T: TryFrom<&'m mut aya::maps::Map, Error = aya::maps::MapError>,
{
    T::try_from(map).map_err(|error| WatchError::Load(chain(&error)))
}

fn put(result: Result<(), aya::maps::MapError>) -> Result<(), WatchError> {
    result.map_err(|error| WatchError::Load(chain(&error)))
}

/// An error with its causes on one line; the verifier's log is for nobody.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}
