//! Limits as the libraries read them, from the environment or from the file that SoftMig's
//! prolog writes for a job, and which limits a process was meant to have, whatever it has.
//!
//! Both use strtoul(3) with base 0 and then look at the last byte of the text
//! for a unit, so `1gb` is one byte and `1.5g` one gigabyte. Every spelling in
//! `fixtures/vgpu/*-env-*` was read by five builds alike.

use super::layout::DEVICES;
use crate::model::MeantBy;
use crate::observation::{Environment, VgpuTraces};

/// Variables with a limit for all devices; `_0` to `_15` name one of them.
const MEMORY: &str = "CUDA_DEVICE_MEMORY_LIMIT";
const SM: &str = "CUDA_DEVICE_SM_LIMIT";
/// The SM limit in percent where none is set.
const NO_SM_LIMIT: u64 = 100;

/// The limits that a process is meant to have, by the library's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes; 0 is no limit.
    pub memory: [u64; DEVICES],
    /// Percent; 100 and more is no limit.
    pub sm: [u64; DEVICES],
}

impl Limits {
    /// The limits that variables set; `value` gives a variable's value, if it
    /// is set. A device's own limit comes before the one for all, unless it is
    /// 0 or no number.
    pub fn from_variables<'a>(value: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        let number = |name: &str| value(name).map_or(0, number);
        let of_each = |name: &str, all: u64| {
            std::array::from_fn(|device| match number(&format!("{name}_{device}")) {
                0 => all,
                own => own,
            })
        };
        let sm = match number(SM) {
            0 => NO_SM_LIMIT,
            percent => percent,
        };
        Self { memory: of_each(MEMORY, number(MEMORY)), sm: of_each(SM, sm) }
    }

    /// The limits in a job's file of SoftMig. The first line that begins with
    /// `NAME=` counts; one with a blank before the name or the sign does not.
    pub fn from_job_file(text: &[u8]) -> Self {
        Self::from_variables(|name| {
            text.split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        })
    }
}

/// The number that a limit's text is read as; 0 if it is none or too large for
/// its unit.
pub fn number(text: &[u8]) -> u64 {
    let unit = match text.last() {
        Some(b'g' | b'G') => 1 << 30,
        Some(b'm' | b'M') => 1 << 20,
        Some(b'k' | b'K') => 1 << 10,
        _ => 1,
    };
    strtoul(text).checked_mul(unit).unwrap_or(0)
}

/// strtoul(3) with base 0: blanks, a sign, then hexadecimal after `0x`, octal
/// after `0`, else decimal digits. What does not fit becomes the largest
/// number, a minus sign wraps around.
fn strtoul(text: &[u8]) -> u64 {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let text = text.get(start..).unwrap_or_default();
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', rest @ ..] => (8, rest),
        _ => (10, text),
    };
    let mut digits = digits.iter().map_while(|byte| char::from(*byte).to_digit(base));
    let number = digits
        .try_fold(0_u64, |number, digit| number.checked_mul(u64::from(base))?.checked_add(u64::from(digit)));
    match number {
        // Too large: the sign is not looked at.
        None => u64::MAX,
        Some(number) if negative => number.wrapping_neg(),
        Some(number) => number,
    }
}

/// How the file of SoftMig's library is named.
pub(super) const SOFTMIG: &[u8] = b"libsoftmig.so";
/// The file from which HAMi-core sets variables.
const OVERRIDE_FILE: &str = "/overrideEnv";
/// SM limits that limit anything, in percent.
pub(super) const SM_LIMITS: std::ops::Range<u64> = 1..100;

/// The limits that a process was meant to have.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    /// The limits; `None` where its environment is not known.
    pub(super) limits: Option<Limits>,
    pub(super) by: MeantBy,
    /// The file or process that named them.
    pub(super) place: Option<String>,
    /// The limits in `/overrideEnv`, if there are any: some builds go by them.
    pub(super) overrides: Option<Limits>,
}

impl Limits {
    /// No limit at all.
    pub(super) fn none() -> Self {
        Self { memory: [0; DEVICES], sm: [100; DEVICES] }
    }

    /// These limits, and those of `others` where they are lower.
    pub(super) fn at_most(&self, others: &Self) -> Self {
        let memory = |own: u64, other: u64| match (own, other) {
            (own, 0) => own,
            (0, other) => other,
            (own, other) => own.min(other),
        };
        let sm = |own: u64, other: u64| match (SM_LIMITS.contains(&own), SM_LIMITS.contains(&other)) {
            (_, false) => own,
            (false, true) => other,
            (true, true) => own.min(other),
        };
        let each = |own: &[u64; DEVICES], others: &[u64; DEVICES], least: &dyn Fn(u64, u64) -> u64| {
            let mut pairs = own.iter().zip(others);
            std::array::from_fn(|_| pairs.next().map_or(0, |(own, other)| least(*own, *other)))
        };
        Self { memory: each(&self.memory, &others.memory, &memory), sm: each(&self.sm, &others.sm, &sm) }
    }

    /// Whether any of them limits anything.
    pub(super) fn are_any(&self) -> bool {
        self.memory.iter().any(|bytes| *bytes > 0) || self.sm.iter().any(|sm| SM_LIMITS.contains(sm))
    }
}

/// The limits that an environment names; `None` if one of them was too long to be kept.
/// A limit that is not found is none, though there may be more where the environment
/// was not read to its end.
pub(super) fn of_environment(environment: &Environment) -> Option<Limits> {
    if environment.variables.iter().any(|one| one.cut && one.name.contains("_LIMIT")) {
        return None;
    }
    Some(Limits::from_variables(|name| environment.get(name).map(|variable| variable.value.as_bytes())))
}

/// The limits in `/overrideEnv`, if there are any.
fn of_override_file(traces: &VgpuTraces) -> Option<Limits> {
    let variables = traces.override_file.as_ref()?.variables.known()?;
    if variables.iter().any(|variable| variable.cut) {
        return None;
    }
    let value = |name: &str| variables.iter().find(|variable| variable.name == name);
    let limits = Limits::from_variables(|name| value(name).map(|variable| variable.value.as_bytes()));
    limits.are_any().then_some(limits)
}

/// Whether SoftMig is meant to limit a process: it has its library, or its
/// loader is told to load it.
pub(super) fn is_softmig(traces: &VgpuTraces) -> bool {
    let is_named = |text: &[u8]| text.windows(SOFTMIG.len()).any(|part| part == SOFTMIG);
    let preload = traces.preload.known().and_then(Option::as_ref);
    traces.libraries.iter().any(|library| is_named(library.path.as_bytes()))
        || preload.is_some_and(|preload| is_named(preload.text.as_bytes()))
        || !traces.job_files.is_empty()
}

impl Meant {
    /// What a process's own environment, `/overrideEnv` or its job's file names. In a
    /// job SoftMig goes by the file alone.
    pub(super) fn of(traces: &VgpuTraces, at_exec: Option<&Environment>, is_in_job: bool) -> Self {
        let says_job = at_exec.is_some_and(|environment| environment.get("SLURM_JOB_ID").is_some());
        if is_softmig(traces) && (is_in_job || says_job) {
            return Self::of_job(traces);
        }
        let overrides = of_override_file(traces);
        let unknown = Self { limits: None, by: MeantBy::Nobody, place: None, overrides: overrides.clone() };
        let is_whole = at_exec.is_some_and(|environment| environment.cut.is_none());
        let limits = at_exec.and_then(of_environment).filter(|limits| is_whole || limits.are_any());
        let Some(limits) = limits else { return unknown };
        let by = if limits.are_any() { MeantBy::Environment } else { MeantBy::Nobody };
        let own = Self { limits: Some(limits.clone()), by, ..unknown };
        match overrides.map(|overrides| limits.at_most(&overrides)) {
            Some(least) if least != limits => Self {
                limits: Some(least),
                by: MeantBy::OverrideFile,
                place: Some(OVERRIDE_FILE.to_owned()),
                ..own
            },
            _ => own,
        }
    }

    /// What was written for the job that the process is in. A process can be shown
    /// another file than the node's, and can name another job than its own.
    fn of_job(traces: &VgpuTraces) -> Self {
        let files = &traces.job_files;
        let of_node = files.iter().find(|file| file.outside && !file.foreign);
        let of_own_job = of_node.or_else(|| files.iter().find(|file| !file.foreign));
        let Some(file) = of_own_job.or(files.first()) else {
            // Without a file there are no limits, unless there is one that cannot be seen.
            let limits = traces.unread.is_none().then(Limits::none);
            return Self { limits, by: MeantBy::Nobody, place: None, overrides: None };
        };
        let limits = file.text.known().map(|text| Limits::from_job_file(text.as_bytes()));
        let place = Some(file.path.lossy().into_owned());
        Self { limits, by: MeantBy::JobFile, place, overrides: None }
    }
}
