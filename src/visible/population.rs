//! The GPUs of a vendor that a process can count: those that the cgroup allows.
//!
//! Where verdicts are unknown, the question is answered twice: once as if they were
//! all deny, and once as if they were all allow. Each is one of two possible worlds.
//! If both answers are the same, it does not depend on these verdicts.

use crate::model::Certainty;
use crate::model::{SharedRole, Vendor, Verdict};
use crate::report::Gpu;

use super::openable::OpenableGpus;
use super::outcome::{Chosen, CountedDevice, agreed};

/// A vendor's GPUs in one of the two possible worlds.
#[derive(Debug)]
pub(super) struct Population<'a> {
    /// The inventory of the node.
    pub(super) gpus: &'a [Gpu],
    /// The vendor's GPUs that are not excluded, allowed or not.
    pub(super) present: Vec<usize>,
    /// Those of them that can be opened.
    pub(super) allowed: Vec<usize>,
    /// What the process may open.
    reach: &'a OpenableGpus,
    /// Whether unknown verdicts count as allow.
    lenient: bool,
}

impl<'a> Population<'a> {
    /// The GPUs of a vendor. `lenient`: in the world where unknown verdicts are allow.
    fn new(vendor: &Vendor, gpus: &'a [Gpu], reach: &'a OpenableGpus, lenient: bool) -> Self {
        let present: Vec<usize> = places(vendor, gpus).filter(|place| !gpus[*place].excluded).collect();
        let open = is_open(shared(vendor, reach).map_or(Verdict::Allow, |found| found.1), lenient);
        let allowed = |place: &usize| open && is_open(verdict(reach, *place), lenient);
        let allowed = present.iter().copied().filter(allowed).collect();
        Self { gpus, present, allowed, reach, lenient }
    }

    /// The GPU in a place.
    pub(super) fn gpu(&self, place: usize) -> &'a Gpu {
        &self.gpus[place]
    }

    /// Whether a GPU can be opened.
    pub(super) fn has(&self, place: usize) -> bool {
        self.allowed.contains(&place)
    }

    /// The MIG compute instances of an allowed GPU that can be opened.
    pub(super) fn instances(&self, place: usize) -> Vec<CountedDevice> {
        let usable = |at: &usize| self.gpu(place).mig[*at].ci.is_some() && self.has_instance(place, *at);
        let places = (0..self.gpu(place).mig.len()).filter(usable);
        places.map(|instance| CountedDevice { gpu: place, instance: Some(instance) }).collect()
    }

    /// Whether one MIG instance can be opened.
    pub(super) fn has_instance(&self, place: usize, instance: usize) -> bool {
        let access = self.reach.gpus.get(place).and_then(|access| access.instances.get(instance));
        self.has(place) && is_open(access.copied().unwrap_or(Verdict::Unknown), self.lenient)
    }

    /// The keys of GPUs, for people.
    pub(super) fn keys(&self, places: &[usize]) -> String {
        places.iter().map(|place| self.gpu(*place).key.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// What both worlds agree on. Where a shared node that the libraries need is denied,
/// there is no device, and neither world is looked at.
pub(super) fn in_both_worlds<'a>(
    vendor: &Vendor,
    gpus: &'a [Gpu],
    reach: &'a OpenableGpus,
    resolve: impl Fn(&Population<'a>) -> Chosen,
) -> Chosen {
    if let Some((role, Verdict::Deny)) = shared(vendor, reach) {
        let none = Chosen::none(Certainty::Documented);
        let whose = if *vendor == Vendor::Nvidia { "NVIDIA" } else { "AMD" };
        return none.with_why(format!("{role} is denied: {whose}'s libraries cannot start without it"));
    }
    let strict = resolve(&Population::new(vendor, gpus, reach, false));
    let why = undecided(vendor, gpus, reach);
    match why {
        None => strict,
        Some(why) => agreed(strict, &resolve(&Population::new(vendor, gpus, reach, true)), &why),
    }
}

/// Which verdict is unknown, if any is.
fn undecided(vendor: &Vendor, gpus: &[Gpu], reach: &OpenableGpus) -> Option<String> {
    if let Some((role, Verdict::Unknown)) = shared(vendor, reach) {
        return Some(format!("whether {role} may be opened is not known"));
    }
    let open = |place: &usize| {
        let of_instance = |at: usize| {
            let access = reach.gpus.get(*place).and_then(|access| access.instances.get(at));
            access.is_none_or(|verdict| *verdict == Verdict::Unknown)
        };
        match verdict(reach, *place) {
            Verdict::Unknown => true,
            Verdict::Allow => (0..gpus[*place].mig.len()).any(of_instance),
            Verdict::Deny => false,
        }
    };
    let mut places = places(vendor, gpus).filter(|place| !gpus[*place].excluded).filter(open);
    places.next().map(|place| format!("whether {} may be opened is not known", gpus[place].key))
}

/// The places of a vendor's GPUs.
fn places<'a>(vendor: &'a Vendor, gpus: &'a [Gpu]) -> impl Iterator<Item = usize> + 'a {
    (0..gpus.len()).filter(move |place| gpus[*place].vendor == *vendor)
}

/// The verdict on a GPU; unknown if there is none.
fn verdict(reach: &OpenableGpus, place: usize) -> Verdict {
    reach.gpus.get(place).map_or(Verdict::Unknown, |access| access.verdict)
}

/// Whether a verdict counts as allow in a world.
fn is_open(verdict: Verdict, lenient: bool) -> bool {
    verdict == Verdict::Allow || (lenient && verdict == Verdict::Unknown)
}

/// A shared node that the vendor's libraries need and that is not allowed: a denied
/// one before an unknown one.
fn shared<'a>(vendor: &Vendor, reach: &'a OpenableGpus) -> Option<(&'a SharedRole, Verdict)> {
    let needed =
        reach.shared.iter().filter(|node| node.needed && node.role.needed_by().as_ref() == Some(vendor));
    let worst = |node: &&super::SharedAccess| node.verdict == Verdict::Deny;
    let found = needed.clone().find(worst);
    let found = found.or_else(|| needed.clone().find(|node| node.verdict == Verdict::Unknown));
    found.map(|node| (&node.role, node.verdict))
}
