//! Reads each program and each map once, however many cgroups have it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use super::replaced::Replacements;
use crate::bytecode::btf;
use crate::model::{MapType, ProblemCode};
use crate::observation::{Answer, HexBytes, HiddenBytes, Map, MapEntry, Program, with_inner};
use crate::observe::clock::BootClock;
use crate::observe::problems::{Log, refusal};
use crate::observe::rights::{refused, unless_held};
use crate::sys::bpf::{self, BpfError, ContentLimits, Contents, MapInfo, ProgramInfo, Xlated};
use crate::sys::caps::Capability::SysAdmin;

/// Every program and map read so far.
#[derive(Debug)]
pub(in crate::observe) struct ProgramCache {
    pub(in crate::observe) programs: BTreeMap<u32, Program>,
    pub(in crate::observe) maps: BTreeMap<u32, Map>,
    clock: BootClock,
    /// The programs that have types, so that functions of them can be replaced.
    typed: BTreeSet<u32>,
    /// What replaces functions, once it was asked for.
    replacements: Option<Replacements>,
}

impl ProgramCache {
    pub(in crate::observe) fn new() -> Self {
        Self {
            programs: BTreeMap::new(),
            maps: BTreeMap::new(),
            clock: BootClock::now(),
            typed: BTreeSet::new(),
            replacements: None,
        }
    }

    /// Reads the programs that are not known yet, and their maps.
    pub(in crate::observe) fn load(&mut self, ids: impl Iterator<Item = u32>, log: &mut Log) {
        self.replacements = None;
        for id in ids {
            if !self.programs.contains_key(&id) {
                let program = if log.out_of_time("reading programs") {
                    missing(id, "the time limit was reached")
                } else {
                    self.read(id, log)
                };
                self.programs.insert(id, program);
            }
        }
    }

    /// Takes in one program's info.
    pub(in crate::observe) fn add(&mut self, info: ProgramInfo, log: &mut Log) -> Program {
        for map in &info.map_ids {
            self.maps.entry(*map).or_insert_with(|| read(*map, log));
        }
        self.add_inner(log);
        self.describe(info, log)
    }

    /// The program that has this info.
    pub(super) fn describe(&mut self, info: ProgramInfo, log: &mut Log) -> Program {
        let replaced_by = match info.has_types {
            true => {
                self.typed.insert(info.id);
                self.replacements.get_or_insert_with(|| Replacements::now(log)).of(info.id)
            }
            false => Answer::default(),
        };
        Program {
            id: info.id,
            name: info.name.into(),
            tag: info.tag.iter().map(|byte| format!("{byte:02x}")).collect(),
            gpl_compatible: info.gpl_compatible,
            loaded_at: self.clock.stamp(info.load_time),
            uid: info.uid,
            map_ids: info.map_ids,
            xlated: instructions(info.id, info.xlated, log),
            calls: BTreeMap::new(),
            replaced_by,
        }
    }

    /// Asks again what replaces functions of programs; returns the programs for
    /// which that changed, and the maps with such programs, as they were before.
    pub(in crate::observe) fn ask_replacements(
        &mut self,
        log: &mut Log,
    ) -> (BTreeMap<u32, Program>, BTreeMap<u32, Map>) {
        if self.typed.is_empty() {
            return Default::default();
        }
        let (now, typed) = (Replacements::now(log), &self.typed);
        let is_typed = |program: &&mut Program| typed.contains(&program.id);
        let programs = now.update(self.programs.values_mut().filter(is_typed));
        let holding = self.maps.values_mut().filter(|map| !map.programs.is_empty());
        let maps = holding.filter_map(|map| {
            let before = map.clone();
            let changed = now.update(map.programs.iter_mut().filter(is_typed));
            (!changed.is_empty()).then_some((map.id, before))
        });
        (programs, maps.collect())
    }

    /// The maps that `programs` use, those inside maps included.
    pub(in crate::observe) fn used<'p>(&self, programs: impl Iterator<Item = &'p Program>) -> BTreeSet<u32> {
        let ids = programs.flat_map(|program| program.map_ids.iter().copied());
        with_inner(ids, |id| self.maps.get(&id))
    }

    /// Forgets programs that are not attached any more.
    pub(in crate::observe) fn keep(&mut self, wanted: impl Fn(u32) -> bool) {
        self.programs.retain(|id, _| wanted(*id));
        let used = self.used(self.programs.values());
        self.maps.retain(|id, _| used.contains(id));
        let called: BTreeSet<u32> = self.maps.values().flat_map(Map::program_ids).collect();
        self.typed.retain(|id| wanted(*id) || called.contains(id));
    }

    fn read(&mut self, id: u32, log: &mut Log) -> Program {
        match info(id) {
            Ok(info) => self.add(info, log),
            Err(error) => missing(id, &why(id, error, log)),
        }
    }
}

/// Everything the kernel tells about a program.
pub(in crate::observe) fn info(id: u32) -> Result<ProgramInfo, BpfError> {
    bpf::program_info(bpf::program_by_id(id)?.as_fd())
}

/// A program that could not be read.
pub(super) fn missing(id: u32, why: &str) -> Program {
    Program { id, xlated: Answer::Missing(why.to_owned()), ..Program::default() }
}

/// Why a program could not be read.
pub(super) fn why(id: u32, error: BpfError, log: &mut Log) -> String {
    if error.is_gone() {
        return "the program was unloaded while it was read".to_owned();
    }
    if !error.is_refused() {
        log.add(ProblemCode::Unreadable, format!("program {id}"), error.to_string(), "");
        return error.to_string();
    }
    log.no_right("programs by id", refusal(error, &[SysAdmin]), unless_held(&[SysAdmin], "CAP_SYS_ADMIN"));
    refused(&[SysAdmin], "CAP_SYS_ADMIN", "open the program")
}

fn instructions(id: u32, xlated: Xlated, log: &mut Log) -> Answer<HexBytes> {
    let why = match xlated {
        Xlated::Bytes(bytes) => return Answer::Known(HexBytes(bytes)),
        Xlated::NoRight => {
            let needs = "CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON";
            log.no_right("program instructions", "the kernel withholds them", needs);
            format!("needs {needs} to read the instructions")
        }
        Xlated::Blinded => {
            let needs = "CAP_SYSLOG with kernel.kptr_restrict below 2 (or programs loaded with net.core.bpf_jit_harden=0)";
            log.no_right("blinded program instructions", "the kernel withholds them", needs);
            format!("the program is blinded (net.core.bpf_jit_harden); needs {needs}")
        }
        Xlated::TooLong(length) => {
            let why = format!("{length} bytes of instructions are more than gpumap reads");
            log.add(ProblemCode::TooLarge, format!("program {id}"), why.clone(), "");
            why
        }
    };
    Answer::Missing(why)
}

/// How often a map that changes is listed again.
const TRIES: usize = 3;

/// `BPF_F_RDONLY_PROG` and `BPF_F_WRONLY_PROG`: such a map has no locks, timers
/// or kernel pointers in it (`map_check_btf`, `kernel/bpf/syscall.c`).
const ONE_WAY: u32 = 1 << 7 | 1 << 8;

/// Reads one map.
pub(in crate::observe) fn read(id: u32, log: &mut Log) -> Map {
    match open(id) {
        Ok((map, Ok(contents))) => Map { entries: entries(id, contents, log), ..map },
        Ok((map, Err(error))) => Map { entries: Answer::Missing(why_unread(id, error, log)), ..map },
        Err(error) => Map { id, entries: Answer::Missing(why_unread(id, error, log)), ..Map::default() },
    }
}

fn open(id: u32) -> Result<(Map, Result<Contents, BpfError>), BpfError> {
    let fd = bpf::map_by_id(id)?;
    let info = bpf::map_info(fd.as_fd())?;
    let contents = stable(|| bpf::contents(fd.as_fd(), &info, ContentLimits::default()));
    Ok((describe(&info, bpf::map_frozen(fd.as_fd())), contents))
}

fn stable(read: impl Fn() -> Result<Contents, BpfError>) -> Result<Contents, BpfError> {
    for _ in 1..TRIES {
        match read() {
            Ok(Contents::Changing) => {}
            other => return other,
        }
    }
    read()
}

fn describe(info: &MapInfo, frozen: bool) -> Map {
    Map {
        id: info.id,
        kind: MapType::of_number(info.kind),
        name: info.name.as_slice().into(),
        key_size: info.key_size,
        value_size: info.value_size,
        max_entries: info.max_entries,
        flags: info.flags,
        frozen,
        hidden: hidden(info),
        entries: Answer::default(),
        programs: Vec::new(),
    }
}

/// The parts of the values that the kernel does not show. A map without types
/// has none; where its types cannot be read, any part may be one.
fn hidden(info: &MapInfo) -> Vec<HiddenBytes> {
    if info.types == 0 || info.value_type == 0 || info.flags & ONE_WAY != 0 {
        return Vec::new();
    }
    match bpf::types_by_id(info.types) {
        Ok(Some(types)) => btf::hidden(&types, info.value_type, info.value_size),
        _ => vec![HiddenBytes { first: 0, size: info.value_size }],
    }
}

fn entries(id: u32, contents: Contents, log: &mut Log) -> Answer<Vec<MapEntry>> {
    let (code, why) = match contents {
        Contents::Entries(entries) => {
            let entry = |(key, value)| MapEntry { key: HexBytes(key), value: HexBytes(value) };
            return Answer::Known(entries.into_iter().map(entry).collect());
        }
        Contents::Unreadable => {
            return Answer::Missing("entries of this map type cannot be listed".to_owned());
        }
        Contents::TooLarge => {
            let limits = ContentLimits::default();
            (ProblemCode::TooLarge, format!("over {} entries or {} MiB", limits.entries, limits.bytes >> 20))
        }
        Contents::Changing => {
            (ProblemCode::ChangedWhileRead, "its keys came and went while they were listed".to_owned())
        }
        Contents::NoCpuCount => {
            (ProblemCode::Unreadable, "/sys/devices/system/cpu/possible cannot be read".to_owned())
        }
    };
    log.add(code, format!("map {id}"), why.clone(), "");
    Answer::Missing(why)
}

fn why_unread(id: u32, error: BpfError, log: &mut Log) -> String {
    if error.is_gone() {
        return "the map was removed while it was read".to_owned();
    }
    if error.is_refused() {
        log.no_right("BPF maps", refusal(error, &[SysAdmin]), unless_held(&[SysAdmin], "CAP_SYS_ADMIN"));
        return refused(&[SysAdmin], "CAP_SYS_ADMIN", "open the map");
    }
    log.add(ProblemCode::Unreadable, format!("map {id}"), error.to_string(), "");
    error.to_string()
}
