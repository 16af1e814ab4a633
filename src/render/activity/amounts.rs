//! Amounts in few characters: `50.2k`, `1.4 GiB`, `43 %`, `12s`.

use crate::render::process_facts::age;
use crate::report::DurationClass;

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
