//! Values of variables: unset, empty and set are three different things; the entries
//! between commas, which are bytes; and the GPU that a UUID or its beginning names.

use super::outcome::CountedDevice;
use super::outcome::Step;
use super::population::Population;
use crate::model::{Certainty, CutCode, ValueState};
use crate::observation::{Answer, Environment, Text, Variable};
use crate::report::Cut;

/// What an environment says of one variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum VariableState<'a> {
    /// It is certainly not set.
    Unset,
    /// It is set to nothing.
    Empty,
    /// It has a value, of which the end may be missing.
    Value(&'a Variable),
    /// It could not be seen, for this reason.
    Unknown(&'a str),
}

impl<'a> VariableState<'a> {
    /// The state of the first variable with this name, which is the one that
    /// `getenv` finds (POSIX leaves repeated names open; libc takes the first).
    pub(super) fn of(environment: &'a Answer<Environment>, name: &str) -> Self {
        let environment = match environment {
            Answer::Known(environment) => environment,
            Answer::Missing(why) => return Self::Unknown(why),
        };
        match (environment.get(name), &environment.cut) {
            (Some(variable), _) if variable.value.is_empty() && !variable.cut => Self::Empty,
            (Some(variable), _) => Self::Value(variable),
            (None, Some(why)) => Self::Unknown(why),
            (None, None) => Self::Unset,
        }
    }

    /// The state without the value.
    pub(super) fn kind(self) -> ValueState {
        match self {
            Self::Unset => ValueState::Unset,
            Self::Empty => ValueState::Empty,
            Self::Value(_) => ValueState::Value,
            Self::Unknown(_) => ValueState::Unknown,
        }
    }

    /// The value lossily, if there is one.
    pub(super) fn raw(self) -> Option<String> {
        match self {
            Self::Value(variable) => Some(variable.value.lossy().into_owned()),
            Self::Empty => Some(String::new()),
            Self::Unset | Self::Unknown(_) => None,
        }
    }

    /// Hex of the value if it is not UTF-8.
    pub(super) fn raw_hex(self) -> Option<String> {
        self.value().and_then(Text::hex)
    }

    /// The value if it is not empty.
    pub(super) fn value(self) -> Option<&'a Text> {
        match self {
            Self::Value(variable) => Some(&variable.value),
            _ => None,
        }
    }

    /// Whether it is set.
    pub(super) fn is_set(self) -> bool {
        matches!(self, Self::Empty | Self::Value(_))
    }
}

/// Characters of an entry that an answer repeats.
const SHOWN: usize = 80;

/// The entries of a value.
#[derive(Debug)]
pub(super) struct List<'a> {
    /// The entries that are whole.
    pub(super) entries: Vec<&'a [u8]>,
    /// Whether the value was longer than what was kept, so that more entries may follow.
    pub(super) open: bool,
}

impl<'a> List<'a> {
    /// Splits a value. If only its beginning was kept, the last entry is dropped: its
    /// end is missing.
    pub(super) fn of(variable: &'a Variable) -> Self {
        let mut entries: Vec<_> = variable.value.as_bytes().split(|byte| *byte == b',').collect();
        if variable.cut {
            entries.pop();
        }
        Self { entries, open: variable.cut }
    }

    /// The same without an empty last entry, for runtimes that ignore a final comma
    /// (`getline`, `find_first_of` loops).
    pub(super) fn without_final_comma(mut self) -> Self {
        if !self.open && self.entries.len() > 1 && self.entries.last().is_some_and(|last| last.is_empty()) {
            self.entries.pop();
        }
        self
    }

    /// Says that the list ends at this entry, and why.
    pub(super) fn cut(&self, position: usize, code: CutCode, why: impl Into<String>) -> Cut {
        let entry = self.entries.get(position).map(|entry| shown(entry)).unwrap_or_default();
        Cut { entry, position, code, why: why.into() }
    }
}

/// An entry as text for people, at most [`SHOWN`] characters of it.
pub(super) fn shown(entry: &[u8]) -> String {
    let text = String::from_utf8_lossy(entry.get(..SHOWN * 4).unwrap_or(entry));
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

/// An entry without what C calls blanks (`isspace`) around it.
pub(super) fn trimmed(entry: &[u8]) -> &[u8] {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = entry.iter().position(|byte| !blank(byte)).unwrap_or(entry.len());
    let end = entry.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    entry.get(start..end).unwrap_or_default()
}

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
