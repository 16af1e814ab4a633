//! The answer of `gpumap prog`, and the program table of every answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytecode::{Insn, disasm};
use crate::model::Writer;
use crate::observation::{self, Observation};
use crate::policy::{Decoder, TimeLimit};
use crate::report::{Line, Place, Program, ProgramsAnswer};

use super::attachment;
use super::error::AnalyseError;
use super::policies::Policies;
use super::rules::PolicyTable;
use super::subject;
use super::writer;

/// The answer of `gpumap prog`: the given programs with disassembly and rules.
pub fn programs(
    observation: &Observation,
    ids: &[u32],
    limit: &TimeLimit,
) -> Result<ProgramsAnswer, AnalyseError> {
    let mut decoder = Decoder::of_programs(&observation.programs, limit);
    let policies = Policies::new(observation);
    let mut rules = PolicyTable::new(&observation.gpu_facts);
    for id in ids {
        subject::program(observation, *id)?;
    }
    let ids: BTreeSet<u32> = ids.iter().copied().collect();
    let mut programs = table(observation, &ids, &policies, &mut rules, &mut decoder);
    let context = policies.context(None);
    for program in observation.programs.iter().filter(|program| ids.contains(&program.id)) {
        let meanings: BTreeMap<usize, String> = decoder.annotate(program, &context).into_iter().collect();
        if let Some(entry) = programs.get_mut(&program.id) {
            entry.disassembly = disassembly(program, &meanings);
            entry.attached = places(observation, program.id);
        }
    }
    Ok(ProgramsAnswer { programs, policies: rules.policies, notes: Vec::new() })
}

/// The programs with these ids, and what each alone decides.
pub(super) fn table(
    observation: &Observation,
    ids: &BTreeSet<u32>,
    policies: &Policies<'_>,
    rules: &mut PolicyTable,
    decoder: &mut Decoder,
) -> BTreeMap<u32, Program> {
    let mut table = BTreeMap::new();
    for program in observation.programs.iter().filter(|program| ids.contains(&program.id)) {
        let policy = match policies.alone(program.id, decoder) {
            Some(policy) => policy,
            None => decoder.policy(&[program], &policies.context(None)),
        };
        let policy = rules.add(policy, decoder);
        table.insert(program.id, entry(program, policy));
    }
    table
}

fn entry(program: &observation::Program, policy: String) -> Program {
    let insns = program.xlated.known().and_then(|xlated| Insn::parse_all(&xlated.0));
    Program {
        id: program.id,
        name: program.name.lossy().into_owned(),
        tag: program.tag.clone(),
        writer: insns.as_ref().and_then(|insns| writer::of(insns, &program.name)),
        insns: insns.map(|insns| insns.len()),
        loaded_at: program.loaded_at.clone(),
        uid: program.uid,
        maps: program.map_ids.clone(),
        attached: None,
        policy: Some(policy),
        disassembly: None,
    }
}

/// The software whose programs have this shape.
pub(super) fn writer_of(program: &observation::Program) -> Option<Writer> {
    let insns = program.xlated.known().and_then(|xlated| Insn::parse_all(&xlated.0))?;
    writer::of(&insns, &program.name)
}

/// Where a program is attached; nothing if not all places were looked at and it is in
/// none of the others.
fn places(observation: &Observation, id: u32) -> Option<Vec<Place>> {
    let of = |cgroup: &observation::Cgroup| {
        let cgroup_path = cgroup.path.lossy().into_owned();
        let own = attachment::attached(cgroup).into_iter().filter(|(own, _)| *own == id);
        let link_unknown = cgroup.own.known().is_some_and(|own| own.links_unknown.is_some());
        let place = |flags| Place { cgroup: cgroup_path.clone(), flags, link_unknown };
        own.map(|(_, flags)| place(flags)).collect::<Vec<_>>()
    };
    let places: Vec<Place> = observation.cgroups.iter().flat_map(of).collect();
    let is_root = |scope: &observation::Scope| scope.recursive && scope.path.as_bytes() == b"/";
    let is_whole = observation.scope.iter().any(is_root)
        && observation.cgroups.iter().all(|cgroup| cgroup.own.known().is_some());
    (is_whole || !places.is_empty()).then_some(places)
}

fn disassembly(program: &observation::Program, meanings: &BTreeMap<usize, String>) -> Option<Vec<Line>> {
    let insns = Insn::parse_all(&program.xlated.known()?.0)?;
    let line = |(pc, _)| Line {
        pc,
        text: disasm::text(&insns, pc, &program.calls),
        meaning: meanings.get(&pc).cloned().unwrap_or_default(),
    };
    Some(disasm::walk(&insns).map(line).collect())
}
