//! Finds other cgroups that would gain access if a program allowed more.

use std::collections::HashMap;

use crate::analyse;
use crate::model::CgroupPath;
use crate::observation::{Observation, Text};
use crate::policy::{Decoder, Policy};

/// A program that would allow more, and where it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widening<'a> {
    /// The program.
    pub(super) program: u32,
    /// What it would decide.
    pub(super) policy: Policy,
    /// The cgroup it is attached to.
    pub(super) level: &'a Text,
    /// The cgroup that is repaired: it and those below it are meant to gain.
    pub(super) meant: &'a Text,
}

/// The other cgroups in which something would be allowed that is not allowed now,
/// or of which that is not known.
pub(super) fn gainers(
    observation: &Observation,
    widening: Widening<'_>,
    decoder: &mut Decoder,
) -> Vec<String> {
    let is_other = |path: &Text| {
        let path = CgroupPath::new(path);
        path.is_at_or_below(CgroupPath::new(widening.level))
            && !path.is_at_or_below(CgroupPath::new(widening.meant))
    };
    let mut known: HashMap<Vec<u32>, bool> = HashMap::new();
    let mut gainers = Vec::new();
    for cgroup in observation.cgroups.iter().filter(|cgroup| is_other(&cgroup.path)) {
        // Nobody is in a level above the one that is repaired but those below it.
        let is_above = CgroupPath::new(widening.meant).is_below(CgroupPath::new(&cgroup.path));
        if is_above && cgroup.is_empty() {
            continue;
        }
        let gains = match cgroup.effective.known() {
            Some(ids) if !ids.contains(&widening.program) => false,
            Some(ids) => match known.get(ids) {
                Some(gains) => *gains,
                None => {
                    let gains = gains(observation, &cgroup.path, widening, decoder);
                    known.insert(ids.clone(), gains);
                    gains
                }
            },
            None => true,
        };
        gainers.extend(gains.then(|| cgroup.path.lossy().into_owned()));
    }
    gainers
}

fn gains(observation: &Observation, path: &Text, widening: Widening<'_>, decoder: &mut Decoder) -> bool {
    let Ok(stack) = analyse::stack(observation, path, decoder) else { return true };
    if stack.programs.iter().any(|program| program.by_place) {
        return true;
    }
    let after = after(&stack, &widening, decoder);
    !decoder.is_known(stack.together) || !decoder.allows_no_more(after, stack.together)
}

/// What the programs decide once one of them is widened.
pub(super) fn after(stack: &analyse::Stack, widening: &Widening<'_>, decoder: &mut Decoder) -> Policy {
    let of = |program: &analyse::ProgramInForce| {
        if program.place.id == widening.program { widening.policy } else { program.policy }
    };
    let policies: Vec<Policy> = stack.programs.iter().map(of).collect();
    decoder.all_of(&policies)
}
