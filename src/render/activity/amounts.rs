//! Amounts in few characters (`50.2k`, `1.4 GiB`, `43 %`, `12s`), numbers that are the
//! least that somebody did because not all of his calls found room, and names of GPUs.

use crate::model::CountTable;
use crate::model::CountTable::{
    Batches, Blocks, Contexts, Errors, Events, Graphs, Processes, Streams, Threads,
};
use crate::render::gpus;
use crate::render::process::age;
use crate::report::{ActiveProcess, DurationClass, Gpu, GpuUse};

/// A count or a rate: `7`, `812`, `50.2k`, `3.1M`.
pub(in crate::render) fn count(amount: f64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match STEPS.into_iter().find(|(size, _)| amount >= *size) {
        Some((size, letter)) => format!("{:.1}{letter}", amount / size),
        None if amount > 0.0 && amount < 9.95 && amount.fract() > 0.0 => format!("{amount:.1}"),
        None => format!("{amount:.0}"),
    }
}

/// Bytes: `-` for none, `512 B`, `1.4 GiB`.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(in crate::render) fn bytes(amount: u64) -> String {
    byte_rate(amount as f64)
}

/// Bytes per second, without saying so.
pub(in crate::render) fn byte_rate(amount: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut amount, mut unit) = (amount, 0);
    while amount >= 1023.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match amount {
        amount if amount < 0.5 && unit == 0 => "-".to_owned(),
        amount if amount < 9.95 && unit > 0 => format!("{amount:.1} {name}"),
        amount => format!("{amount:.0} {name}"),
    }
}

/// How long ago the last call was: `now`, else as an age: `12s`, `3m`, `5h`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; whole seconds will do"
)]
pub(in crate::render) fn idle(seconds: f64) -> String {
    if seconds < 1.0 { "now".to_owned() } else { age(seconds as u64) }
}

/// How long a call lasts that a thread waits in, else how long ago the last one was.
pub(in crate::render) fn idle_or_waiting(waiting: Option<f64>, since: Option<f64>) -> Option<String> {
    match waiting.filter(|seconds| *seconds >= 1.0) {
        Some(waiting) => Some(format!("waits {}", idle(waiting))),
        None => since.map(idle),
    }
}

/// A length of time: `128 ns`, `4.1 us`, `2.1 ms`, `1.0 s`.
pub(in crate::render) fn duration(seconds: f64) -> String {
    let (amount, unit) = match seconds {
        seconds if seconds < 1e-6 => (seconds * 1e9, "ns"),
        seconds if seconds < 1e-3 => (seconds * 1e6, "us"),
        seconds if seconds < 1.0 => (seconds * 1e3, "ms"),
        seconds => (seconds, "s"),
    };
    if amount < 9.95 { format!("{amount:.1} {unit}") } else { format!("{amount:.0} {unit}") }
}

/// A class of durations and its calls: `<4.1 us 812`, `≥2.1 ms 3`.
pub(in crate::render) fn class(class: &DurationClass) -> String {
    match class.below_seconds {
        Some(below) => format!("<{} {}", duration(below), class.calls),
        None => format!("≥{} {}", duration(class.from_seconds), class.calls),
    }
}

/// Tables whose losses concern a column.
pub(super) const LAUNCHES: &[CountTable] = &[Processes, Threads, Streams, Graphs];
pub(super) const COPIED: &[CountTable] = &[Processes, Threads, Streams, Batches];
pub(super) const MEMORY: &[CountTable] = &[Processes, Threads, Contexts, Blocks];
pub(super) const WAITS: &[CountTable] = &[Processes, Threads, Contexts, Streams, Events];
pub(super) const ERRORS: &[CountTable] = &[Processes, Threads, Contexts, Streams, Errors];

/// Whether a process lost something in one of these tables.
pub(super) fn is_concerned(process: &ActiveProcess, tables: &[CountTable]) -> bool {
    process.lost.iter().any(|lost| tables.contains(lost))
}

/// A number: `≥12` where some may be missing, and `?` where that is all that is known.
pub(super) fn number(process: &ActiveProcess, tables: &[CountTable], shown: String) -> String {
    marked(is_concerned(process, tables), shown)
}

/// The same of a number of which it is known whether some may be missing.
pub(in crate::render) fn marked(is_partial: bool, shown: String) -> String {
    match is_partial {
        false => shown,
        true if matches!(shown.as_str(), "0" | "-" | "0 %") => "?".to_owned(),
        true => format!("≥{shown}"),
    }
}

/// The GPU's short name; `?` with the ordinal where it is not known which it is.
pub(super) fn gpu(one: &GpuUse, gpus: &[Gpu]) -> String {
    match (&one.instance, &one.gpu, one.ordinal) {
        (Some(instance), ..) => gpus::instance_name(instance, gpus),
        (None, Some(gpu), _) => gpus::name(gpu, gpus),
        (None, None, Some(ordinal)) => format!("? (its {ordinal})"),
        (None, None, None) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that amounts of every size are short.
    #[test]
    fn amounts() {
        let counts = [0.0, 0.5, 7.0, 812.4, 50_210.0, 3.1e6, 2e9, 1.8e19];
        let texts = counts.map(count);
        assert_eq!(texts, ["0", "0.5", "7", "812", "50.2k", "3.1M", "2.0G", "18000000.0T"]);
        let sizes = [0, 1, 1023, 1024, 1500 << 20, u64::MAX].map(bytes);
        assert_eq!(sizes, ["-", "1 B", "1023 B", "1.0 KiB", "1.5 GiB", "16 EiB"]);
        let times = [0.2, 12.0, 200.0, 7300.0, 1e6].map(idle);
        assert_eq!(times, ["now", "12s", "3m", "2h", "11d"]);
        let lengths = [128e-9, 4.096e-6, 2.1e-3, 1.0].map(duration);
        assert_eq!(lengths, ["128 ns", "4.1 us", "2.1 ms", "1.0 s"]);
    }
}

#[cfg(test)]
mod at_least_tests {
    use super::*;

    /// Make sure that a number is marked where some of it may be missing, and a 0 is not
    /// shown as one there.
    #[test]
    fn marks() {
        let process = ActiveProcess { lost: vec![Blocks], ..ActiveProcess::default() };
        let show = |tables, text: &str| number(&process, tables, text.to_owned());
        assert_eq!([show(MEMORY, "1.4 GiB"), show(MEMORY, "-"), show(LAUNCHES, "0")], ["≥1.4 GiB", "?", "0"]);
        assert_eq!([true, false].map(|is_partial| marked(is_partial, "0".to_owned())), ["?", "0"]);
    }
}
