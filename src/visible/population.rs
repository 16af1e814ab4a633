//! The GPUs of a vendor that a process can count: those that the cgroup allows, in the
//! order in which the process counts them before any variable.

use super::outcome::{Chosen, CountedDevice, Order, agreed};
use super::variable::VariableState;
use crate::model::{Certainty, InOrder as _, SharedRole, Vendor, Verdict};
use crate::report::Gpu;

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

/// What a process may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenableGpus {
    /// One for each GPU of the inventory, in its order.
    pub gpus: Vec<GpuAccess>,
    /// The nodes that a vendor's GPUs share.
    pub shared: Vec<SharedAccess>,
}

/// What a process may open of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuAccess {
    /// The verdict for `rw` on the node that gates the GPU.
    pub verdict: Verdict,
    /// One for each of the GPU's MIG instances, in the inventory's order: the
    /// GPU itself (`rw`) and the capabilities of both instances (`r`).
    pub instances: Vec<Verdict>,
}

/// The verdict for `rw` on a node that a vendor's GPUs share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAccess {
    /// As in [`crate::gpu::SharedNode::role`].
    pub role: SharedRole,
    /// Whether CUDA or ROCm cannot start without it.
    pub needed: bool,
    /// The verdict.
    pub verdict: Verdict,
}

/// A PCI address as numbers.
type Address = (u32, u32, u32, u32);

/// CUDA's order: `CUDA_DEVICE_ORDER` (CUDA Programming Guide, environment
/// variables). `PCI_BUS_ID` is the order of PCI addresses. The default,
/// `FASTEST_FIRST`, is a heuristic of the driver; GPUs of one model are in PCI order
/// in practice. Any other value means one of the two, and no document says which.
pub(super) fn cuda(population: &Population<'_>, variable: VariableState<'_>) -> (Vec<usize>, Order) {
    let Some(places) = by_pci(population) else {
        return unordered(population, "not every GPU has a PCI address of its own");
    };
    let by_bus = variable.value().is_some_and(|value| value.as_bytes() == b"PCI_BUS_ID")
        && !matches!(variable, VariableState::Value(variable) if variable.cut);
    match by_bus || places.len() < 2 {
        true => (places, Order::Known),
        false if same_model(population) => (places, Order::Assumed),
        false => {
            let why = "CUDA sorts GPUs of different or unknown models by speed (CUDA_DEVICE_ORDER)";
            (places, Order::Unknown(why.to_owned()))
        }
    }
}

/// ROCm's order is that of the KFD topology's nodes, which the inventory does
/// not keep. amdgpu makes a GPU's node and its render minor together, mostly in
/// PCI order: where the orders of minors and of PCI addresses agree, it is taken for
/// that one.
pub(super) fn rocm(population: &Population<'_>) -> (Vec<usize>, Order) {
    let mut places = population.allowed.clone();
    places.order_by_key(|place| population.gpu(*place).minor);
    let address = |place: &usize| address(population.gpu(*place));
    let agree = places.iter().all(|place| population.gpu(*place).minor.is_some())
        && places.iter().all(|place| address(place).is_some())
        && places.is_sorted_by_key(address);
    match (places.len() < 2, agree) {
        (true, _) => (places, Order::Known),
        (false, true) => (places, Order::Assumed),
        (false, false) => {
            unordered(population, "PCI addresses and render minors do not tell the order of KFD's nodes")
        }
    }
}

/// Level Zero's order: PCI if `ZE_ENABLE_PCI_ID_DEVICE_ORDER` is 1 (Level Zero
/// specification, core programming guide), else the driver's own.
pub(super) fn level_zero(population: &Population<'_>, variable: VariableState<'_>) -> (Vec<usize>, Order) {
    let by_bus = variable.value().is_some_and(|value| value.as_bytes() == b"1");
    match by_pci(population) {
        Some(places) if by_bus || places.len() < 2 => (places, Order::Known),
        _ => unordered(population, "the driver chooses it unless ZE_ENABLE_PCI_ID_DEVICE_ORDER is 1"),
    }
}

/// The set without an order.
fn unordered(population: &Population<'_>, why: &str) -> (Vec<usize>, Order) {
    let order = match population.allowed.len() {
        0 | 1 => Order::Known,
        _ => Order::Unknown(why.to_owned()),
    };
    (population.allowed.clone(), order)
}

/// The allowed GPUs in PCI order, if every one has an address of its own.
fn by_pci(population: &Population<'_>) -> Option<Vec<usize>> {
    let mut addressed = Vec::new();
    for place in &population.allowed {
        match address(population.gpu(*place)) {
            Some(address) => addressed.push((address, *place)),
            None if population.allowed.len() < 2 => addressed.push(((0, 0, 0, 0), *place)),
            None => return None,
        }
    }
    addressed.sort_unstable();
    let repeated = addressed.windows(2).any(|pair| pair[0].0 == pair[1].0);
    (!repeated).then(|| addressed.into_iter().map(|(_, place)| place).collect())
}

/// Whether all allowed GPUs are of one known model.
fn same_model(population: &Population<'_>) -> bool {
    let mut models = population.allowed.iter().map(|place| population.gpu(*place).model.as_deref());
    let first = models.next().flatten();
    first.is_some() && models.all(|model| model == first)
}

/// `dddd:bb:dd.f` as numbers.
fn address(gpu: &Gpu) -> Option<Address> {
    let mut parts = gpu.pci.as_deref()?.split([':', '.']).map(|part| u32::from_str_radix(part, 16).ok());
    let address = (parts.next()??, parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(address)
}
