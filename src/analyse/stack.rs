//! The programs in force on one cgroup one by one, with what each decides.

use super::attachment::Tree;
use super::error::AnalyseError;
use super::policies::Policies;
use super::programs;
use super::subject;
use crate::model::{CgroupPath, Time, Writer};
use crate::observation::{self, Observation, Process, Program, Text};
use crate::policy::{Decoder, Policy};
use crate::report::Effective;

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
    let program: &Program = subject::program(observation, place.id)?;
    let alone = policies.alone(place.id, decoder);
    let context = policies.context(Some(cgroup.id));
    let policy = alone.unwrap_or_else(|| decoder.policy(&[program], &context));
    Ok(ProgramInForce {
        name: program.name.lossy().into_owned(),
        loaded_at: program.loaded_at.clone(),
        writer: programs::writer_of(program),
        policy,
        by_place: alone.is_none(),
        place,
    })
}
