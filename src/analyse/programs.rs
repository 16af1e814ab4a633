//! Programs one by one: the answer of `gpumap prog` and the program table of every
//! answer, the programs in force on one cgroup with what each decides, and a program made
//! of rules, with the proof that it decides as they say.

use std::collections::{BTreeMap, BTreeSet};

use super::attachment::{self, Tree};
use super::policies::{Policies, PolicyTable};
use super::subject::{self, AnalyseError};
use super::writer;
use crate::bytecode::{Insn, disasm};
use crate::model::{CgroupPath, Time, Writer};
use crate::observation::{self, Answer, HexBytes, Observation, Process, Text};
use crate::policy::{CompileError, Context, Decoder, Policy, TimeLimit};
use crate::report::{Effective, Line, Place, Program, ProgramsAnswer};

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

/// The programs in force on a cgroup.
#[derive(Clone, Debug)]
pub struct Stack {
    /// In run order.
    pub programs: Vec<ProgramInForce>,
    /// What they decide together.
    pub together: Policy,
    /// The same with the v1 controller of the processes inside, where that is
    /// mounted.
    pub whole: Policy,
    /// What that controller says by itself; `None` where it has no say.
    pub v1: Option<Policy>,
}

/// One program in force.
#[derive(Clone, Debug)]
pub struct ProgramInForce {
    /// Its id, where it is attached, and how.
    pub place: Effective,
    /// The program's name; often empty.
    pub name: String,
    /// When it was loaded, RFC 3339; empty if unknown.
    pub loaded_at: Time,
    /// Software whose programs have this shape; a label.
    pub writer: Option<Writer>,
    /// What it decides by itself.
    pub policy: Policy,
    /// Whether that may be another in another place: it asks for the cgroup, reads
    /// maps, or changes what other programs decided.
    pub by_place: bool,
}

/// The programs in force on a cgroup of an observation.
///
/// # Errors
///
/// The observation does not hold the cgroup or one of its programs.
pub fn stack(observation: &Observation, path: &Text, decoder: &mut Decoder) -> Result<Stack, AnalyseError> {
    let policies = Policies::new(observation);
    let cgroup = subject::cgroup(observation, path)?;
    let tree = Tree::new(&observation.cgroups);
    let programs = tree.effective(cgroup).into_iter();
    let programs = programs.map(|place| in_force(observation, cgroup, place, &policies, decoder));
    let programs = programs.collect::<Result<Vec<_>, _>>()?;
    let together = policies.of_cgroup(cgroup, &[], decoder);
    let inside: Vec<&Process> =
        observation.processes.iter().filter(|process| process.cgroup == *path).collect();
    let whole = policies.of_cgroup(cgroup, &inside, decoder);
    let v1 = policies.v1_of(&inside, decoder);
    Ok(Stack { programs, together, whole, v1 })
}

/// What the programs in force decide on each cgroup at or below `top`, in the order
/// of the observation; the v1 controller has no say here.
pub fn policies_below<'a>(
    observation: &'a Observation,
    top: &Text,
    decoder: &mut Decoder,
) -> Vec<(&'a observation::Cgroup, Policy)> {
    let policies = Policies::new(observation);
    let is_below =
        |cgroup: &&observation::Cgroup| CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(top));
    let cgroups = observation.cgroups.iter().filter(is_below);
    cgroups.map(|cgroup| (cgroup, policies.of_cgroup(cgroup, &[], decoder))).collect()
}

fn in_force(
    observation: &Observation,
    cgroup: &observation::Cgroup,
    place: Effective,
    policies: &Policies<'_>,
    decoder: &mut Decoder,
) -> Result<ProgramInForce, AnalyseError> {
    let program: &observation::Program = subject::program(observation, place.id)?;
    let alone = policies.alone(place.id, decoder);
    let context = policies.context(Some(cgroup.id));
    let policy = alone.unwrap_or_else(|| decoder.policy(&[program], &context));
    Ok(ProgramInForce {
        name: program.name.lossy().into_owned(),
        loaded_at: program.loaded_at.clone(),
        writer: writer_of(program),
        policy,
        by_place: alone.is_none(),
        place,
    })
}

/// Why rules have no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// The compiler refuses.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The program was compiled, but the decoder cannot follow it.
    #[error(
        "a program of {0} instructions decides so, and gpumap cannot read it again: nothing proves it ({1})"
    )]
    Unproved(usize, String),
}

/// Compiles a policy into a program, and decodes the program as that policy again.
///
/// # Errors
///
/// The policy has no program, or none that gpumap can decode.
pub fn compiled(decoder: &mut Decoder, policy: Policy) -> Result<observation::Program, NoProgram> {
    let insns = decoder.compile(policy)?;
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let program =
        observation::Program { xlated: Answer::Known(HexBytes(bytes)), ..observation::Program::default() };
    let context = Context::default();
    // Another decoder reads it: this one's diagram is full of the way to the
    // policy, and it shall not answer from memory.
    let mut reader = Decoder::of_one_program(decoder.limit());
    let again = reader.policy(&[&program], &context);
    if reader.is_known(again) && reader.id(again) == decoder.id(policy) {
        Ok(program)
    } else {
        Err(NoProgram::Unproved(insns.len(), reader.reasons(again).join("; ")))
    }
}
