//! Intel: `ZE_AFFINITY_MASK` (Level Zero specification, core programming guide). A
//! mask selects devices and does not reorder them. Unless
//! `ZE_FLAT_DEVICE_HIERARCHY` is `COMPOSITE` its numbers count tiles, and gpumap
//! does not know how many tiles a GPU has.

use super::mig::decimal;
use super::outcome::{Chosen, CountedDevice, Listing};
use super::outcome::{Selection, disputed, open_ended};
use super::population;
use super::population::Population;
use super::variable::List;
use super::variable::VariableState;
use crate::model::Certainty;

/// The three variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'a> {
    /// `ZE_AFFINITY_MASK`.
    pub(super) mask: VariableState<'a>,
    /// `ZE_FLAT_DEVICE_HIERARCHY`.
    pub(super) hierarchy: VariableState<'a>,
    /// `ZE_ENABLE_PCI_ID_DEVICE_ORDER`.
    pub(super) order: VariableState<'a>,
}

/// The devices of a process.
pub(super) fn resolve(population: &Population<'_>, variables: Variables<'_>) -> Chosen {
    let (places, order) = population::level_zero(population, variables.order);
    let base = Listing { devices: places.into_iter().map(CountedDevice::whole).collect(), order };
    match variables.mask {
        _ if base.devices.is_empty() => Chosen::none(Certainty::Documented),
        VariableState::Unknown(why) => Chosen::unknown(why),
        VariableState::Unset => Chosen::known(base.devices, base.order, Certainty::Documented),
        VariableState::Empty => Chosen::unknown("no document says what an empty mask selects"),
        VariableState::Value(variable) => masked(&base, variables.hierarchy, &List::of(variable)),
    }
}

/// The devices of a mask.
fn masked(base: &Listing, hierarchy: VariableState<'_>, list: &List<'_>) -> Chosen {
    if list.open {
        return open_ended();
    }
    let composite = hierarchy.value().is_some_and(|value| value.as_bytes() == b"COMPOSITE");
    match list.entries.as_slice() {
        _ if composite => whole(base, list),
        [b"0"] if !matches!(hierarchy, VariableState::Unknown(_)) => {
            let why = "device 0 is the first GPU or its first tile (ZE_FLAT_DEVICE_HIERARCHY)";
            let first = whole(base, list);
            if first.listing.is_some() { first.with_why(why) } else { first }
        }
        _ => Chosen::unknown(
            "the mask may count tiles (ZE_FLAT_DEVICE_HIERARCHY), and their number is not known",
        ),
    }
}

/// The devices of a mask that counts GPUs.
fn whole(base: &Listing, list: &List<'_>) -> Chosen {
    let mut chosen = vec![false; base.devices.len()];
    for (position, entry) in list.entries.iter().enumerate() {
        let place = decimal(entry).and_then(|number| usize::try_from(number).ok());
        match place.and_then(|place| chosen.get_mut(place)) {
            Some(choice) => *choice = true,
            None => return disputed(list, position, "what this entry selects is not known"),
        }
    }
    let mut picked = Selection::new();
    let chosen = base.devices.iter().zip(chosen).filter(|(_, choice)| *choice);
    chosen.for_each(|(device, _)| picked.take(*device, Certainty::Documented));
    picked.by_ordinal(base)
}
