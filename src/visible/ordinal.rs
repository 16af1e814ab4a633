//! Lists of ordinals in `CUDA_VISIBLE_DEVICES` (CUDA Programming Guide,
//! environment variables). What the guide leaves open is read as the two
//! models of the driver in PyTorch and nvitop do: where they agree the answer
//! is `modelled`, where they differ it is unknown.

use crate::model::{Certainty, CutCode};
use std::collections::{HashMap, HashSet};

use super::outcome::{Chosen, Listing};
use super::outcome::{Selection, disputed, open_ended};
use super::variable::{List, trimmed};

/// What both models make of one entry, before any device is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ordinal<'a> {
    /// A number, its digits, and how sure that reading is.
    Number(u64, &'a [u8], Certainty),
    /// No ordinal: code, why, how sure.
    Invalid(CutCode, &'static str, Certainty),
    /// The models differ.
    Disputed(&'static str),
}

/// Reads one entry.
pub(super) fn read(raw: &[u8]) -> Ordinal<'_> {
    let entry = trimmed(raw);
    let digits = entry.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = entry.split_at(digits);
    match (number, rest) {
        ([], []) => {
            Ordinal::Invalid(CutCode::EmptyEntry, "an empty entry ends the list", Certainty::Modelled)
        }
        ([], [b'-', rest @ ..]) => negative(rest),
        ([], [b'+', ..]) => Ordinal::Disputed("models of the driver differ on a plus sign"),
        ([], [byte, ..]) if !byte.is_ascii_graphic() => Ordinal::Disputed("models differ on such characters"),
        ([], _) => word(entry),
        (_, [byte, ..]) if !byte.is_ascii() => {
            Ordinal::Disputed("models differ on digits that are not ASCII")
        }
        _ => {
            let plain = raw == number && (number.len() == 1 || number[0] != b'0');
            let confidence = if plain { Certainty::Documented } else { Certainty::Modelled };
            Ordinal::Number(value(number), number, confidence)
        }
    }
}

/// An entry with a minus sign, from behind it.
fn negative(rest: &[u8]) -> Ordinal<'_> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, junk) = rest.split_at(digits);
    match (number, value(number), junk) {
        ([], ..) => Ordinal::Disputed("models of the driver differ on a minus sign"),
        (.., [byte, ..]) if !byte.is_ascii() => {
            Ordinal::Disputed("models differ on digits that are not ASCII")
        }
        (_, 0, _) => Ordinal::Disputed("models of the driver differ on minus zero"),
        (_, _, []) => {
            Ordinal::Invalid(CutCode::Invalid, "a negative number ends the list", Certainty::Documented)
        }
        _ => Ordinal::Invalid(CutCode::Invalid, "a negative number ends the list", Certainty::Modelled),
    }
}

/// An entry that starts like neither a number nor a sign.
fn word(entry: &[u8]) -> Ordinal<'_> {
    match entry.starts_with(b"GPU-") || entry.starts_with(b"MIG-") {
        true => Ordinal::Invalid(CutCode::MixedKinds, "the list began with an ordinal", Certainty::Modelled),
        false => {
            Ordinal::Invalid(CutCode::Invalid, "no ordinal, no word has a meaning here", Certainty::Modelled)
        }
    }
}

/// The value of digits; too large is too large.
fn value(digits: &[u8]) -> u64 {
    let digit = |value: u64, byte: &u8| value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    digits.iter().fold(0, digit)
}

/// Picks ordinals from a listing.
///
/// Both models empty a list that repeats an ordinal. nvitop compares text and
/// PyTorch numbers, and PyTorch does so before it looks whether the ordinals
/// exist: where that makes a difference the answer is unknown.
pub(super) fn select(list: &List<'_>, base: &Listing) -> Chosen {
    let mut picked = Selection::new();
    let mut seen: HashMap<u64, &[u8]> = HashMap::new();
    for (position, entry) in list.entries.iter().enumerate() {
        let (value, digits, confidence) = match read(entry) {
            Ordinal::Number(value, digits, confidence) => (value, digits, confidence),
            Ordinal::Disputed(why) => return disputed(list, position, why),
            Ordinal::Invalid(code, why, confidence) => {
                picked.stop(list.cut(position, code, why), confidence);
                return picked.by_ordinal(base);
            }
        };
        match seen.insert(value, digits) {
            Some(before) if before == digits => return repeated(list, position),
            Some(_) => {
                return disputed(list, position, "models differ on an ordinal repeated in another form");
            }
            None => {}
        }
        let device = usize::try_from(value).ok().and_then(|place| base.devices.get(place));
        let Some(device) = device else {
            let why = out_of_range(digits, base.devices.len());
            picked.stop(list.cut(position, CutCode::OutOfRange, why), confidence);
            return behind(list, position, picked, &seen, base);
        };
        picked.take(*device, confidence);
    }
    if list.open { open_ended() } else { picked.by_ordinal(base) }
}

/// A list with an ordinal that does not exist, unless what follows repeats
/// one: PyTorch's model then shows nothing, nvitop's what came before.
fn behind(
    list: &List<'_>,
    position: usize,
    picked: Selection,
    seen: &HashMap<u64, &[u8]>,
    base: &Listing,
) -> Chosen {
    let mut values: HashSet<u64> = seen.keys().copied().collect();
    let why = "models differ on a repetition behind an ordinal that is out of range";
    for (at, entry) in list.entries.iter().enumerate().skip(position + 1) {
        if picked.devices.is_empty() {
            break;
        }
        match read(entry) {
            Ordinal::Number(value, ..) if values.insert(value) => {}
            Ordinal::Invalid(..) => return picked.by_ordinal(base),
            Ordinal::Number(..) | Ordinal::Disputed(_) => return disputed(list, at, why),
        }
    }
    if list.open && !picked.devices.is_empty() { open_ended() } else { picked.by_ordinal(base) }
}

/// A repeated entry leaves nothing.
pub(super) fn repeated(list: &List<'_>, position: usize) -> Chosen {
    let why = "a repeated entry leaves no device at all";
    Chosen::none(Certainty::Modelled).with_cut(Some(list.cut(position, CutCode::Duplicate, why)))
}

/// Why an ordinal does not exist.
pub(super) fn out_of_range(digits: &[u8], devices: usize) -> String {
    let digits = super::variable::shown(digits);
    match devices {
        0 => format!("ordinal {digits}: no GPU is allowed here"),
        1 => format!("ordinal {digits}: only 1 GPU is allowed here"),
        _ => format!("ordinal {digits}: only {devices} GPUs are allowed here"),
    }
}
