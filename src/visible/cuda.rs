//! CUDA: `CUDA_VISIBLE_DEVICES` inside the set that the cgroup allows, and the lists of UUIDs
//! in it (CUDA Programming Guide).

use std::collections::HashSet;

use super::ordinal::repeated;
use super::outcome::{Chosen, CountedDevice, Listing, agreed};
use super::outcome::{Selection, Step, disputed, open_ended};
use super::population::Population;
use super::variable::{List, VariableState, trimmed};
use super::{mig, ordinal, population, uuid};
use crate::model::{Certainty, CutCode};

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
        None => super::outcome::open_ended(),
        Some(first) if first.starts_with(b"MIG-") => mig::select(list, population),
        Some(first) if first.starts_with(b"GPU-") => {
            in_models(population, order, |_| by_uuids(list, population))
        }
        Some(first) if is_name(first) => {
            super::outcome::disputed(list, 0, "models differ on blanks around UUIDs and on their case")
        }
        Some(_) => in_models(population, order, |base| ordinal::select(list, base)),
    }
}

/// Whether a value is a list of ordinals, by its first entry.
pub(super) fn is_ordinal(value: &[u8]) -> bool {
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default();
    super::variable::trimmed(first).first().is_some_and(u8::is_ascii_digit)
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
    let start = super::variable::trimmed(entry).get(..4).unwrap_or_default();
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
    let (places, order) = population::cuda(population, order);
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

/// Picks GPUs by UUID.
pub(super) fn by_uuids(list: &List<'_>, population: &Population<'_>) -> Chosen {
    let mut picked = Selection::new();
    let mut seen = HashSet::new();
    let several = list.entries.len() > 1 || list.open;
    for (position, entry) in list.entries.iter().enumerate() {
        let step = if seen.insert(*entry) {
            step(population, entry, several)
        } else {
            return repeated(list, position);
        };
        match step {
            Step::Take(device, _) if picked.devices.contains(&device) => {
                return disputed(list, position, "models differ on a GPU named twice in different ways");
            }
            Step::Take(device, confidence) => picked.take(device, confidence),
            Step::Disputed(why) => return disputed(list, position, &why),
            Step::Stop(code, why, confidence) => {
                picked.stop(list.cut(position, code, why), confidence);
                return behind(list, position, picked, seen);
            }
        }
    }
    if list.open { open_ended() } else { picked.by_name() }
}

/// What one entry of such a list does.
fn step(population: &Population<'_>, entry: &[u8], several: bool) -> Step {
    let stop = |code, why: &str| Step::Stop(code, why.to_owned(), Certainty::Modelled);
    let bare = trimmed(entry);
    let is_gpu = bare.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"GPU-"));
    match entry {
        _ if entry.starts_with(b"GPU-") && bare == entry => uuid::step(population, entry, several),
        _ if is_gpu => Step::Disputed("models differ on blanks around UUIDs and on their case".to_owned()),
        _ if bare.is_empty() => stop(CutCode::EmptyEntry, "an empty entry ends the list"),
        [b'M', b'I', b'G', b'-', ..] | [b'0'..=b'9', ..] => {
            stop(CutCode::MixedKinds, "the list began with a GPU's UUID")
        }
        _ if entry.iter().any(|byte| !byte.is_ascii()) => {
            Step::Disputed("models differ on such characters".to_owned())
        }
        _ => stop(CutCode::Invalid, "this is no GPU's UUID"),
    }
}

/// A list that ended early, unless a repetition follows before the kind
/// changes: PyTorch's model, which looks at the text first, then shows
/// nothing, nvitop's what came before.
fn behind<'a>(list: &List<'a>, position: usize, picked: Selection, mut seen: HashSet<&'a [u8]>) -> Chosen {
    let same_kind = |entry: &&[u8]| entry.starts_with(b"GPU-");
    let tail = list.entries.get(position..).unwrap_or_default();
    let same = tail.iter().take_while(|entry| same_kind(entry)).count();
    let mut rest = tail.iter().take(same).skip(1);
    let repeats = rest.any(|entry| !seen.insert(entry));
    let unseen = list.open && same == tail.len();
    match (picked.devices.is_empty(), repeats || unseen) {
        (false, true) => disputed(list, position, "models differ on a repetition behind an invalid entry"),
        _ => picked.by_name(),
    }
}
