//! Finds the GPU that a UUID or the beginning of one names. A beginning must be
//! unique "in the system" (CUDA Programming Guide); whether that counts GPUs which
//! the process cannot open is not documented.

use super::outcome::CountedDevice;
use super::outcome::Step;
use super::population::Population;
use crate::model::{Certainty, CutCode};

/// Length of `GPU-8-4-4-4-12`.
const FULL: usize = 40;

/// What a `GPU-…` entry does; `several` if it is not the only one of its list:
/// whether newer drivers take shortened UUIDs in longer lists is disputed
/// (HTCONDOR-3350), so that is no documented case.
pub(super) fn step(population: &Population<'_>, name: &[u8], several: bool) -> Step {
    let is_full = name.len() == FULL;
    let matches = |place: &usize| starts(population, *place, name);
    let nameless = |place: &usize| population.gpu(*place).uuid.is_none();
    let inside: Vec<usize> = population.allowed.iter().copied().filter(matches).collect();
    let everywhere: Vec<usize> = population.present.iter().copied().filter(matches).collect();
    let confidence = match is_full || (!several && name.len() > 4) {
        true => Certainty::Documented,
        false => Certainty::Modelled,
    };
    match (inside.as_slice(), everywhere.len()) {
        ([one], 1) if is_full => Step::Take(CountedDevice::whole(*one), confidence),
        ([one], 1) if population.present.iter().any(nameless) => Step::Disputed(format!(
            "it begins like {}, and another GPU's UUID is not known",
            population.gpu(*one).key
        )),
        ([one], 1) => Step::Take(CountedDevice::whole(*one), confidence),
        ([_], _) => Step::Disputed("it is unique among the allowed GPUs only".to_owned()),
        ([], _) => missing(population, name, &everywhere),
        (several, _) => {
            let why = format!("it begins like {}", population.keys(several));
            Step::Stop(CutCode::Ambiguous, why, Certainty::Documented)
        }
    }
}

/// What a name does that no allowed GPU is known to have.
fn missing(population: &Population<'_>, name: &[u8], everywhere: &[usize]) -> Step {
    let stop = |code, why| Step::Stop(code, why, Certainty::Documented);
    let allowed = || population.allowed.iter().map(|place| population.gpu(*place));
    let same_letters =
        |uuid: &str| uuid.as_bytes().get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let full_elsewhere = name.len() == FULL && !everywhere.is_empty();
    if !full_elsewhere && allowed().any(|gpu| gpu.uuid.is_none()) {
        return Step::Disputed("the UUID of an allowed GPU is not known".to_owned());
    }
    if allowed().any(|gpu| gpu.uuid.as_deref().is_some_and(same_letters)) {
        return Step::Disputed("it differs from an allowed GPU's UUID in case alone".to_owned());
    }
    let vendor = |gpu: &&crate::report::Gpu| gpu.vendor == crate::model::Vendor::Nvidia && gpu.excluded;
    let excluded =
        |gpu: &crate::report::Gpu| gpu.uuid.as_deref().is_some_and(|uuid| uuid.as_bytes().starts_with(name));
    match everywhere {
        [] if population.gpus.iter().filter(vendor).any(excluded) => {
            stop(CutCode::Excluded, "the driver excludes this GPU".to_owned())
        }
        [] => stop(CutCode::NoSuchGpu, "no GPU of this node has such a UUID".to_owned()),
        [one] => stop(CutCode::NotAllowed, format!("{} may not be opened here", population.gpu(*one).key)),
        several => stop(CutCode::NotAllowed, format!("{} may not be opened here", population.keys(several))),
    }
}

/// Whether a GPU's UUID begins with a name.
fn starts(population: &Population<'_>, place: usize, name: &[u8]) -> bool {
    population.gpu(place).uuid.as_deref().is_some_and(|uuid| uuid.as_bytes().starts_with(name))
}
