//! What libraries before the driver take, in sentences; with -v every function and how
//! its times are spread.

use std::io::{self, Write};

use super::amounts::{class, count, duration};
use crate::render::{Style, sanitize};
use crate::report::{ActiveProcess, Intercepted, Interception};

/// A launch that waits longer than this for a library's bookkeeping goes through a build
/// that looks at all processes of the region. Newer ones take some 20 ns, the oldest
/// 120 ns with one process (benches/README.md).
const SLOW: f64 = 1e-6;

/// A line for each process: the function that takes longest.
pub(super) fn write(out: &mut dyn Write, style: Style, processes: &[&ActiveProcess]) -> io::Result<()> {
    for process in processes {
        let Some(between) = &process.interception else { continue };
        let shown = if style.all { between.functions.len() } else { 1 };
        for function in between.functions.iter().take(shown) {
            let Some(sentence) = sentence(between, function) else { continue };
            writeln!(out, "  {}: {sentence}", process.pid)?;
            if style.all && !function.durations.is_empty() {
                let classes: Vec<String> = function.durations.iter().map(class).collect();
                writeln!(out, "    times with the probe's own: {}", classes.join(", "))?;
            }
        }
        if is_slow(between) {
            writeln!(
                out,
                "    HAMi-core before April 2026 looks at all processes of its region at each call: a newer \
                 build takes some 20 ns"
            )?;
        }
    }
    Ok(())
}

/// `libvgpu.so takes 1.7 us before each cuLaunchKernel reaches the driver, 50k times a
/// second: 8.5 % of a CPU`
///
/// Nothing of an interval without a call.
fn sentence(between: &Interception, function: &Intercepted) -> Option<String> {
    let library = between.library.as_deref().unwrap_or("a library before the driver");
    let library = sanitize::short(library.rsplit('/').next().unwrap_or(library), 40, "…");
    let name = sanitize::text(&function.function);
    let rate = function.calls_per_second.map(|rate| format!(", {} times a second", count(rate)));
    let rate = rate.unwrap_or_default();
    let time = match (function.library_seconds, function.measured_seconds) {
        (Some(own), _) => format!("takes some {} before each {name} reaches the driver{rate}", duration(own)),
        (None, Some(with)) => {
            format!(
                "takes at most {} before each {name} reaches the driver (with the probe's time){rate}",
                duration(with)
            )
        }
        (None, None) if function.reached == 0 => {
            format!("got {} calls of {name}, of which none reached the driver", function.calls)
        }
        (None, None) if function.calls_per_second.is_some_and(|rate| rate > 0.0) => {
            format!("let no call of {name} reach the driver in this interval{rate}")
        }
        (None, None) => return None,
    };
    let share = function.share.filter(|share| *share >= 0.001);
    let share = share.map(|share| format!(": {:.1} % of a CPU", share * 100.0)).unwrap_or_default();
    let crowd = between.region_processes.filter(|count| *count > 1);
    let crowd = crowd.map(|count| format!(", with {count} processes in its region")).unwrap_or_default();
    Some(format!("{library} {time}{share}{crowd}"))
}

fn is_slow(between: &Interception) -> bool {
    let is_launch = |function: &&Intercepted| function.function.starts_with("cuLaunch");
    let mut times =
        between.functions.iter().filter(is_launch).filter_map(|function| function.library_seconds);
    times.any(|time| time > SLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that calls which all reached the driver are not told as refused after an
    /// interval without a call, and that refused ones are.
    #[test]
    fn quiet_intervals() {
        let between = Interception { library: Some("/x/libvgpu.so".to_owned()), ..Interception::default() };
        let of = |calls, reached, calls_per_second| Intercepted {
            function: "cuLaunchKernel".to_owned(),
            calls,
            reached,
            calls_per_second,
            ..Intercepted::default()
        };
        let text = |one: &Intercepted| sentence(&between, one);
        assert_eq!(text(&of(20_000, 20_000, Some(0.0))), None);
        assert_eq!(
            text(&of(20_000, 0, Some(0.0))).unwrap(),
            "libvgpu.so got 20000 calls of cuLaunchKernel, of which none reached the driver"
        );
        assert_eq!(
            text(&of(20_000, 19_000, Some(7.0))).unwrap(),
            "libvgpu.so let no call of cuLaunchKernel reach the driver in this interval, 7 times a second"
        );
    }
}
