//! Finds the order in which a process counts the GPUs that it may open, before any
//! list is applied.

use crate::report::Gpu;

use super::outcome::Order;
use super::population::Population;
use super::variable::VariableState;

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
    places.sort_by_key(|place| population.gpu(*place).minor);
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
