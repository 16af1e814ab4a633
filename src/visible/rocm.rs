//! AMD: what ROCR leaves of the GPUs (source of the ROCR runtime,
//! `amd_filter_device.cpp`), and what HIP or OpenCL leave of that (source of
//! clr, `rocdevice.cpp`). The runtimes are open: their source is the document.

use super::mig::decimal;
use super::outcome::{Chosen, CountedDevice, Listing, Order};
use super::outcome::{Selection, Step, disputed, open_ended};
use super::population;
use super::population::Population;
use super::variable::VariableState;
use super::variable::{List, trimmed};
use crate::model::{Certainty, CutCode};

/// Certainty of what the runtimes' source says.
const SURE: Certainty = Certainty::Documented;

/// `ROCR_VISIBLE_DEVICES`: not set, it chooses all GPUs; empty, it chooses none.
pub(super) fn rocr(population: &Population<'_>, visible: VariableState<'_>) -> Chosen {
    let (places, order) = population::rocm(population);
    let base = Listing { devices: places.into_iter().map(CountedDevice::whole).collect(), order };
    match visible {
        _ if base.devices.is_empty() => Chosen::none(SURE),
        VariableState::Unknown(why) => Chosen::unknown(why),
        VariableState::Empty => Chosen::none(SURE),
        VariableState::Unset => Chosen::known(base.devices, base.order, SURE),
        VariableState::Value(variable) => {
            filtered(population, &base, &List::of(variable).without_final_comma())
        }
    }
}

/// The GPUs of ROCR's list. Only as many entries are looked at as there are
/// GPUs; kinds may mix; a repetition ends the list.
fn filtered(population: &Population<'_>, base: &Listing, list: &List<'_>) -> Chosen {
    let mut picked = Selection::new();
    let mut counted = false;
    for (position, raw) in list.entries.iter().enumerate().take(base.devices.len()) {
        let token = trimmed(raw).to_ascii_uppercase();
        counted |= token.first() != Some(&b'G');
        match token_step(population, base, &token) {
            Step::Take(device, _) if picked.devices.contains(&device) => {
                picked.stop(list.cut(position, CutCode::Duplicate, "a repetition ends the list"), SURE);
                return ordered(picked, base, counted);
            }
            Step::Take(device, confidence) => picked.take(device, confidence),
            Step::Disputed(why) => return disputed(list, position, &why),
            Step::Stop(code, why, confidence) => {
                picked.stop(list.cut(position, code, why), confidence);
                return ordered(picked, base, counted);
            }
        }
    }
    let unseen = list.open && list.entries.len() < base.devices.len();
    if unseen { open_ended() } else { ordered(picked, base, counted) }
}

/// The result. Numbers are as certain as the order of the GPUs, names do not depend on it.
fn ordered(picked: Selection, base: &Listing, counted: bool) -> Chosen {
    if counted { picked.by_ordinal(base) } else { picked.by_name() }
}

/// What one token does, trimmed and in upper case.
fn token_step(population: &Population<'_>, base: &Listing, token: &[u8]) -> Step {
    match token {
        [] => Step::Disputed("ROCR throws an exception on an empty entry".to_owned()),
        [b'G', ..] => named(population, token),
        _ => numbered(base, token),
    }
}

/// A token that is the beginning of a unique id.
fn named(population: &Population<'_>, token: &[u8]) -> Step {
    let starts = |place: &usize| {
        let uuid = population.gpu(*place).uuid.as_deref().map(str::to_ascii_uppercase);
        uuid.is_some_and(|uuid| uuid.as_bytes().starts_with(token))
    };
    let stop = |code, why: &str| Step::Stop(code, why.to_owned(), SURE);
    let inside: Vec<usize> = population.allowed.iter().copied().filter(starts).collect();
    match inside.as_slice() {
        _ if !(5..=20).contains(&token.len()) => {
            stop(CutCode::Invalid, "unique ids have 5 to 20 characters here")
        }
        [one] => Step::Take(CountedDevice::whole(*one), SURE),
        [] if population.present.iter().any(starts) => {
            stop(CutCode::NotAllowed, "this GPU may not be opened here")
        }
        [] => stop(CutCode::NoSuchGpu, "no GPU of this node has such a unique id"),
        several => Step::Stop(CutCode::Ambiguous, format!("it names {}", population.keys(several)), SURE),
    }
}

/// A token that is a number, as C's `strtol` with base 0 reads it.
fn numbered(base: &Listing, token: &[u8]) -> Step {
    let why = |why: &str| Step::Stop(CutCode::Invalid, why.to_owned(), SURE);
    match strtol(token) {
        Strtol::Disputed => {
            Step::Disputed("newer C libraries read binary numbers, older ones do not".to_owned())
        }
        Strtol::Invalid => why("this is no number"),
        // The runtime keeps 32 bits of what it read.
        Strtol::Number(number) => match usize::try_from(number as i32) {
            Err(_) => why("a negative number ends the list"),
            Ok(place) => match base.devices.get(place) {
                Some(device) => Step::Take(*device, SURE),
                None => {
                    let why = super::ordinal::out_of_range(token, base.devices.len());
                    Step::Stop(CutCode::OutOfRange, why, SURE)
                }
            },
        },
    }
}

/// What `strtol` makes of a whole token.
#[derive(Debug, PartialEq, Eq)]
enum Strtol {
    Number(i64),
    Invalid,
    Disputed,
}

/// Reads a token without blanks around it, in upper case, as base 0.
fn strtol(token: &[u8]) -> Strtol {
    let (negative, digits) = match token {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, token),
    };
    let (base, digits) = match digits {
        [b'0', b'X', rest @ ..] => (16, rest),
        [b'0', b'B', ..] => return Strtol::Disputed,
        [b'0', _, ..] => (8, digits),
        _ => (10, digits),
    };
    let mut value: i128 = 0;
    for byte in digits {
        let Some(digit) = char::from(*byte).to_digit(base) else { return Strtol::Invalid };
        value = (value * i128::from(base) + i128::from(digit)).min(i128::from(i64::MAX) + 1);
    }
    let value = if negative { -value } else { value };
    match (digits, i64::try_from(value)) {
        ([], _) => Strtol::Invalid,
        (_, number) => Strtol::Number(number.unwrap_or(i64::MAX)),
    }
}

/// `HIP_VISIBLE_DEVICES`, `CUDA_VISIBLE_DEVICES` or `GPU_DEVICE_ORDINAL`: an
/// empty value is none at all, ordinals count what ROCR left.
pub(super) fn relative(population: &Population<'_>, rocr: &Chosen, visible: VariableState<'_>) -> Chosen {
    if rocr.is_none() {
        return Chosen::none(SURE);
    }
    match visible {
        VariableState::Unknown(why) => Chosen::unknown(why),
        VariableState::Unset | VariableState::Empty => Chosen { cut: None, ..rocr.clone() },
        VariableState::Value(variable) => {
            counted(population, rocr, &List::of(variable).without_final_comma())
        }
    }
}

/// The devices of a list of plain decimals: an invalid one ends it, repeated
/// ones are skipped.
fn counted(population: &Population<'_>, rocr: &Chosen, list: &List<'_>) -> Chosen {
    let unknown = Listing { devices: Vec::new(), order: Order::Known };
    let base = rocr.listing.as_ref().unwrap_or(&unknown);
    let confidence = if rocr.listing.is_some() { rocr.confidence } else { SURE };
    let mut picked = Selection { confidence, ..Selection::new() };
    for (position, entry) in list.entries.iter().enumerate() {
        let number = decimal(entry).and_then(|number| usize::try_from(number).ok());
        let device = number.and_then(|number| base.devices.get(number));
        match (number, device) {
            (Some(_), Some(device)) if picked.devices.contains(device) => {}
            (Some(_), Some(device)) => picked.take(*device, SURE),
            (Some(_), None) if rocr.listing.is_none() => {
                return Chosen::unknown(rocr.why.clone().unwrap_or_default());
            }
            (Some(_), None) => {
                let why = outside(population, base, entry);
                picked.stop(list.cut(position, CutCode::OutOfRange, why), SURE);
                return picked.by_ordinal(base);
            }
            (None, _) if may_be_name(population, entry) => {
                return disputed(list, position, "newer runtimes take unique ids here, older ones do not");
            }
            (None, _) => {
                picked.stop(list.cut(position, CutCode::Invalid, "this is no plain decimal number"), SURE);
                return picked.by_ordinal(base);
            }
        }
    }
    if list.open { open_ended() } else { picked.by_ordinal(base) }
}

/// Why HIP and OpenCL find no GPU by this number: they count what ROCR leaves.
fn outside(population: &Population<'_>, base: &Listing, entry: &[u8]) -> String {
    let left = base.devices.len();
    if left == population::rocm(population).0.len() {
        return super::ordinal::out_of_range(entry, left);
    }
    let (gpus, them) = if left == 1 { ("1 GPU", "it") } else { (&*format!("{left} GPUs"), "them") };
    let entry = super::variable::shown(entry);
    format!("ordinal {entry}: ROCR_VISIBLE_DEVICES leaves {gpus}, and this list counts within {them}")
}

/// Whether newer runtimes find a GPU by this entry: they accept any part of its id.
fn may_be_name(population: &Population<'_>, entry: &[u8]) -> bool {
    let entry = String::from_utf8_lossy(entry).to_ascii_uppercase();
    let is_part = |place: &usize| match &population.gpu(*place).uuid {
        Some(uuid) => uuid.to_ascii_uppercase().contains(&entry),
        None => "GPU-XX".contains(&entry),
    };
    entry.contains("GPU-") && population.allowed.iter().any(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        let cases: [(&str, Strtol); 11] = [
            ("0", Strtol::Number(0)),
            ("+1", Strtol::Number(1)),
            ("-1", Strtol::Number(-1)),
            ("010", Strtol::Number(8)),
            ("08", Strtol::Invalid),
            ("0X1F", Strtol::Number(31)),
            ("0X", Strtol::Invalid),
            ("0B1", Strtol::Disputed),
            ("1A", Strtol::Invalid),
            ("", Strtol::Invalid),
            ("99999999999999999999", Strtol::Number(i64::MAX)),
        ];
        for (text, expected) in cases {
            assert_eq!(strtol(text.as_bytes()), expected, "{text}");
        }
    }
}
