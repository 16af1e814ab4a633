//! MIG: a CUDA process uses one compute instance only (MIG User Guide).
//! Instances are named `MIG-<GPU UUID>/<gi>/<ci>`, or by a UUID of their own, which the
//! kernel does not tell; a list of `nvidia-smi -L` may.

use super::outcome::{Chosen, CountedDevice, Order};
use super::outcome::{Selection, Step, disputed, open_ended};
use super::population::Population;
use super::variable::List;
use super::{ordinal, uuid};
use crate::model::{Certainty, CutCode};

/// Whether MIG is on.
pub(super) fn is_on(population: &Population<'_>, place: usize) -> bool {
    !population.gpu(place).mig.is_empty()
}

/// What ordinals count in nvitop's model: every GPU, with MIG or without, at its own
/// place in the order.
pub(super) fn in_place(places: &[usize]) -> Vec<CountedDevice> {
    places.iter().copied().map(CountedDevice::whole).collect()
}

/// What ordinals count in Datadog's model: GPUs with MIG stand at the end, and
/// only if they have an instance.
pub(super) fn at_end(population: &Population<'_>, places: &[usize]) -> Vec<CountedDevice> {
    let (mut with, mut without): (Vec<usize>, Vec<usize>) =
        places.iter().partition(|place| is_on(population, **place));
    with.retain(|place| !population.instances(*place).is_empty());
    without.append(&mut with);
    in_place(&without)
}

/// What is left of picked GPUs: the first that has MIG and an instance hides
/// all others; those with MIG and without instance are nothing.
pub(super) fn collapsed(population: &Population<'_>, picked: Chosen) -> Chosen {
    let Some(listing) = &picked.listing else { return picked };
    let confidence = picked.confidence.max(Certainty::Modelled);
    let has = |device: &&CountedDevice| !population.instances(device.gpu).is_empty();
    let with: Vec<&CountedDevice> = listing.devices.iter().filter(has).collect();
    let ordered = listing.order == Order::Known || with.len() < 2;
    let (cut, why) = (picked.cut.clone(), picked.why.clone());
    match with.as_slice() {
        [] => {
            let whole = |device: &&CountedDevice| !is_on(population, device.gpu);
            let devices = listing.devices.iter().filter(whole).copied().collect();
            Chosen { why, ..Chosen::known(devices, listing.order.clone(), confidence) }.with_cut(cut)
        }
        [first, ..] if ordered || listing.order == Order::Assumed => {
            first_of(population, first.gpu, confidence).with_cut(cut)
        }
        _ => Chosen::unknown("the order of the GPUs with MIG is not known").with_cut(cut),
    }
}

/// The first instance of a GPU, which is known if it is the only one.
fn first_of(population: &Population<'_>, gpu: usize, confidence: Certainty) -> Chosen {
    match population.instances(gpu).as_slice() {
        [one] => {
            let why = "one MIG instance hides all other devices";
            Chosen::known(vec![*one], Order::Known, confidence).with_why(why)
        }
        _ => Chosen::unknown(format!(
            "which MIG instance of {} comes first is not known",
            population.gpu(gpu).key
        )),
    }
}

/// Picks an instance by name: the first entry decides, unless a repetition
/// empties the list.
pub(super) fn select(list: &List<'_>, population: &Population<'_>) -> Chosen {
    let Some((first, rest)) = list.entries.split_first() else { return open_ended() };
    let mut picked = Selection::new();
    match step(population, first) {
        Step::Disputed(why) => return disputed(list, 0, &why),
        Step::Stop(code, why, confidence) => {
            picked.stop(list.cut(0, code, why), confidence);
            return picked.by_name();
        }
        Step::Take(device, confidence) => picked.take(device, confidence),
    }
    if rest.first() == Some(first) {
        return ordinal::repeated(list, 1);
    }
    if list.open || has_repetition(&list.entries) {
        return disputed(list, 0, "a repetition further on may empty the list");
    }
    if !rest.is_empty() {
        picked
            .stop(list.cut(1, CutCode::OneInstance, "CUDA uses one MIG instance only"), Certainty::Modelled);
    }
    picked.by_name()
}

/// Whether any entry is in the list twice.
fn has_repetition(entries: &[&[u8]]) -> bool {
    let mut seen = std::collections::HashSet::new();
    !entries.iter().all(|entry| seen.insert(*entry))
}

/// What a `MIG-…` entry does.
fn step(population: &Population<'_>, entry: &[u8]) -> Step {
    let name = entry.strip_prefix(b"MIG-").unwrap_or_default();
    let any = population.allowed.iter().any(|place| !population.instances(*place).is_empty());
    let exist = population.present.iter().any(|place| is_on(population, *place));
    let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    match parts.as_slice() {
        _ if !exist => stop(CutCode::NoSuchGpu, "no GPU of this node has a MIG instance"),
        _ if !any => stop(CutCode::NotAllowed, "no MIG instance may be opened here"),
        [gpu, gi, ci] if gpu.starts_with(b"GPU-") => instance(population, gpu, gi, ci),
        [uuid] if uuid.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-') => {
            by_uuid(population, entry)
        }
        _ => Step::Disputed("this is no documented form of a MIG instance's name".to_owned()),
    }
}

/// The instance with this whole UUID, if a list tells.
fn by_uuid(population: &Population<'_>, entry: &[u8]) -> Step {
    let of_gpu = |place: &usize| population.gpu(*place).mig.iter().enumerate();
    let all = population.present.iter().flat_map(|place| of_gpu(place).map(|(at, it)| (*place, at, it)));
    let all: Vec<_> = all.filter(|(_, _, instance)| instance.uuid.is_some()).collect();
    let is_meant = |uuid: &str| uuid.as_bytes().eq_ignore_ascii_case(entry);
    match all.iter().find(|(_, _, instance)| instance.uuid.as_deref().is_some_and(is_meant)) {
        None if all.is_empty() => {
            Step::Disputed("the kernel does not tell the UUIDs of MIG instances (see --mig-list)".to_owned())
        }
        None => Step::Disputed("the list of MIG instances does not have this UUID".to_owned()),
        Some((gpu, at, _)) if !population.has_instance(*gpu, *at) => {
            stop(CutCode::NotAllowed, "this MIG instance may not be opened here")
        }
        Some((gpu, at, instance)) => {
            let sure = if instance.uuid_assumed { Certainty::Modelled } else { Certainty::Documented };
            Step::Take(CountedDevice { gpu: *gpu, instance: Some(*at) }, sure)
        }
    }
}

/// The instance with these numbers on the GPU with this UUID.
fn instance(population: &Population<'_>, gpu: &[u8], gi: &[u8], ci: &[u8]) -> Step {
    let (device, confidence) = match uuid::step(population, gpu, false) {
        Step::Take(device, confidence) => (device, confidence),
        other => return other,
    };
    let (Some(gi), Some(ci)) = (decimal(gi), decimal(ci)) else {
        return Step::Disputed("the numbers of the instance are no plain decimals".to_owned());
    };
    let mut places = population.gpu(device.gpu).mig.iter();
    match places.position(|instance| (instance.gi, instance.ci) == (gi, Some(ci))) {
        None => stop(CutCode::NoSuchGpu, "the GPU has no such MIG instance"),
        Some(at) if population.has_instance(device.gpu, at) => {
            Step::Take(CountedDevice { instance: Some(at), ..device }, confidence)
        }
        Some(_) => stop(CutCode::NotAllowed, "this MIG instance may not be opened here"),
    }
}

/// Ends the list.
fn stop(code: CutCode, why: &str) -> Step {
    Step::Stop(code, why.to_owned(), Certainty::Documented)
}

/// A number without sign, blank or leading zero.
pub(super) fn decimal(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}
