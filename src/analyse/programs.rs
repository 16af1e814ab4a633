//! The answer of `gpumap prog`, and the program table of every answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytecode::{Insn, disasm};
use crate::model::Writer;
use crate::observation::{self, Observation};
use crate::policy::{Decoder, TimeLimit};
use crate::report::{Line, Payload, Program};

use super::error::AnalyseError;
use super::policies::Policies;
use super::rules::PolicyTable;
use super::subject;
use super::writer;

/// The answer of `gpumap prog`: the given programs with disassembly and rules.
pub fn programs(observation: &Observation, ids: &[u32], limit: &TimeLimit) -> Result<Payload, AnalyseError> {
    let mut decoder = Decoder::of_programs(&observation.programs, limit);
    let mut policies = Policies::new(observation);
    let mut rules = PolicyTable::new(&observation.gpu_facts);
    for id in ids {
        subject::program(observation, *id)?;
    }
    let ids: BTreeSet<u32> = ids.iter().copied().collect();
    let mut programs = table(observation, &ids, &mut policies, &mut rules, &mut decoder);
    let context = policies.context(None);
    for program in observation.programs.iter().filter(|program| ids.contains(&program.id)) {
        let meanings: BTreeMap<usize, String> = decoder.annotate(program, &context).into_iter().collect();
        if let Some(entry) = programs.get_mut(&program.id) {
            entry.disassembly = disassembly(program, &meanings);
        }
    }
    Ok(Payload { programs: Some(programs), policies: Some(rules.policies), ..Payload::default() })
}

/// The programs with these ids, and what each alone decides.
pub(super) fn table(
    observation: &Observation,
    ids: &BTreeSet<u32>,
    policies: &mut Policies<'_>,
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
        policy: Some(policy),
        disassembly: None,
    }
}

/// The software whose programs have this shape.
pub(super) fn writer_of(program: &observation::Program) -> Option<Writer> {
    let insns = program.xlated.known().and_then(|xlated| Insn::parse_all(&xlated.0))?;
    writer::of(&insns, &program.name)
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
