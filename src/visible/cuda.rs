//! CUDA: `CUDA_VISIBLE_DEVICES` inside the set that the cgroup allows (CUDA
//! Programming Guide, environment variables; MIG User Guide).

use super::list::List;
use super::mig;
use super::named;
use super::order;
use super::ordinal;
use super::outcome::{Chosen, CountedDevice, Listing, agreed};
use super::population::Population;
use super::variable::VariableState;
use crate::model::Certainty;

/// The devices of a process.
pub(super) fn resolve(
    population: &Population<'_>,
    visible: VariableState<'_>,
    order: VariableState<'_>,
) -> Chosen {
    let resolved = match visible {
        VariableState::Unknown(why) => Chosen::unknown(why),
        VariableState::Empty => Chosen::none(Certainty::Documented),
        VariableState::Unset => in_models(population, order, everything),
        VariableState::Value(variable) => listed(population, order, &List::of(variable)),
    };
    match population.allowed.is_empty() {
        true => nothing(resolved),
        false => resolved,
    }
}

/// With no GPU to open, no value gives one.
fn nothing(resolved: Chosen) -> Chosen {
    Chosen::none(Certainty::Documented).with_cut(resolved.cut)
}

/// The devices of a list; its first entry fixes the kind.
fn listed(population: &Population<'_>, order: VariableState<'_>, list: &List<'_>) -> Chosen {
    match list.entries.first() {
        None => super::selection::open_ended(),
        Some(first) if first.starts_with(b"MIG-") => mig::select(list, population),
        Some(first) if first.starts_with(b"GPU-") => {
            in_models(population, order, |_| named::select(list, population))
        }
        Some(first) if is_name(first) => {
            super::selection::disputed(list, 0, "models differ on blanks around UUIDs and on their case")
        }
        Some(_) => in_models(population, order, |base| ordinal::select(list, base)),
    }
}

/// Whether a value is a list of ordinals, by its first entry.
pub(super) fn is_ordinal(value: &[u8]) -> bool {
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default();
    super::list::trimmed(first).first().is_some_and(u8::is_ascii_digit)
}

/// The devices of a list of ordinals where an MPS server may have counted
/// other devices: certain only if they are all there are.
pub(super) fn renumbered(found: Chosen, population: &Population<'_>) -> Chosen {
    let count = found.devices().map_or(0, <[CountedDevice]>::len);
    if count == 0 || count >= population.allowed.len() {
        return found;
    }
    Chosen::unknown(
        "an MPS server counts the devices anew: which these ordinals are depends on what it was given",
    )
}

/// Whether an entry is a UUID but for blanks and case.
fn is_name(entry: &[u8]) -> bool {
    let start = super::list::trimmed(entry).get(..4).unwrap_or_default();
    start.eq_ignore_ascii_case(b"GPU-") || start.eq_ignore_ascii_case(b"MIG-")
}

/// Every device.
fn everything(base: &Listing) -> Chosen {
    Chosen::known(base.devices.clone(), base.order.clone(), Certainty::Documented)
}

/// Asks once, or once in each model if MIG is on somewhere: the models count
/// GPUs with MIG differently, and agree that a process gets one instance.
fn in_models(
    population: &Population<'_>,
    order: VariableState<'_>,
    select: impl Fn(&Listing) -> Chosen,
) -> Chosen {
    let (places, order) = order::cuda(population, order);
    if !places.iter().any(|place| mig::is_on(population, *place)) {
        let devices = places.into_iter().map(CountedDevice::whole).collect();
        return select(&Listing { devices, order });
    }
    let in_place = mig::in_place(&places);
    let at_end = mig::at_end(population, &places);
    let [one, other] = [in_place, at_end]
        .map(|devices| mig::collapsed(population, select(&Listing { devices, order: order.clone() })));
    agreed(one, &other, "models of the driver differ on how GPUs with MIG are counted")
}
