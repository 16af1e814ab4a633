//! Lists of GPU UUIDs in `CUDA_VISIBLE_DEVICES` (CUDA Programming Guide). The
//! first entry fixes the kind; repetitions empty the list, as PyTorch's and
//! nvitop's models of the driver have it.

use crate::model::{Certainty, CutCode};
use std::collections::HashSet;

use super::list::{List, trimmed};
use super::ordinal::repeated;
use super::outcome::Chosen;
use super::population::Population;
use super::selection::{Selection, Step, disputed, open_ended};
use super::uuid;

/// Picks GPUs by UUID.
pub(super) fn select(list: &List<'_>, population: &Population<'_>) -> Chosen {
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
