//! Programs and their maps. Each is read once and kept.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use super::maps;
use super::replaced::Replacements;
use crate::model::ProblemCode;
use crate::observation::{Answer, HexBytes, Map, Program, with_inner};
use crate::observe::clock::BootClock;
use crate::observe::problems::{Log, refusal};
use crate::observe::rights::{refused, unless_held};
use crate::sys::bpf::{self, BpfError, ProgramInfo, Xlated};
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
            self.maps.entry(*map).or_insert_with(|| maps::read(*map, log));
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
