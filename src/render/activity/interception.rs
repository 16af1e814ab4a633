//! What libraries before the driver take, in sentences; with -v every function and how
//! its times are spread.

use std::io::{self, Write};

use super::amounts::{bytes, class, count, duration};
use crate::render::{Style, sanitize};
use crate::report::{ActiveProcess, Intercepted, Interception, KernelWays};

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
        for sentence in past(between) {
            writeln!(out, "  {}: {sentence}", process.pid)?;
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
        _ if function.calls == 0 => return None,
        (None, _) if function.library_at_most_seconds.is_some() => {
            let most = duration(function.library_at_most_seconds.unwrap_or_default());
            format!("takes less than {most} before each {name} reaches the driver, not measurable here{rate}")
        }
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

/// What goes past the library, or past its limits.
fn past(between: &Interception) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(between.kernels.zip(between.sm_limit).and_then(|(ways, limit)| limited(ways, limit)));
    let calls = between.functions.iter().filter(|function| function.past > 0);
    let memory: Vec<&Intercepted> = calls.filter(|function| is_allocation(&function.function)).collect();
    if !memory.is_empty() {
        sentences.push(memory_past(&memory));
    }
    sentences
}

/// `at least 9.0 GiB of memory asked for past the library, in 12 calls of cuArray3DCreate_v2`
fn memory_past(functions: &[&Intercepted]) -> String {
    let sum = |of: fn(&Intercepted) -> u64| functions.iter().map(|it| of(it)).fold(0, u64::saturating_add);
    let asked = match (sum(|it| it.past_bytes), sum(|it| it.past_unsized)) {
        (0, _) => "memory".to_owned(),
        (asked, 0) => format!("{} of memory", bytes(asked)),
        (asked, _) => format!("at least {} of memory", bytes(asked)),
    };
    let calls = super::counted(usize::try_from(sum(|it| it.past)).unwrap_or(usize::MAX), "call");
    let names: Vec<_> = functions.iter().map(|it| sanitize::text(&it.function)).collect();
    format!("{asked} asked for past the library, in {calls} of {}", names.join(", "))
}

fn is_allocation(function: &str) -> bool {
    // Memory of the host is no GPU's.
    function != "cuMemAllocHost_v2"
        && ["cuMemAlloc", "cuMemCreate", "cuArray", "cuMipmapped"]
            .iter()
            .any(|begin| function.starts_with(begin))
}

/// `the SM limit of 30 % is in force for 3 % of its kernels: 97 % come by graphs, which this
/// build does not limit`
#[expect(clippy::cast_precision_loss, reason = "whole percents are shown")]
fn limited(ways: KernelWays, limit: u64) -> Option<String> {
    let all =
        [ways.limited, ways.graphs, ways.cooperative, ways.past].into_iter().fold(0, u64::saturating_add);
    let percent = |kernels: u64| kernels as f64 * 100.0 / all as f64;
    let others = [
        (ways.graphs, "graphs"),
        (ways.cooperative, "cooperative launches"),
        (ways.past, "calls that the library has no part in"),
    ];
    let others: Vec<String> = others
        .into_iter()
        .filter(|(kernels, _)| *kernels > 0)
        .map(|(kernels, way)| format!("{:.0} % come by {way}", percent(kernels)))
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "the SM limit of {limit} % is in force for {:.0} % of its kernels: {}, which this build does not limit",
            percent(ways.limited),
            others.join(", ")
        )
    })
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

    /// Make sure that kernels and memory which the library does not limit are told.
    #[test]
    fn past_its_limits() {
        let ways = KernelWays { limited: 3, graphs: 97, ..KernelWays::default() };
        let pool = Intercepted {
            function: "cuMemAllocFromPoolAsync".to_owned(),
            past: 12,
            past_bytes: 9 << 30,
            ..Intercepted::default()
        };
        let between = Interception {
            functions: vec![pool],
            kernels: Some(ways),
            sm_limit: Some(30),
            ..Interception::default()
        };
        assert_eq!(
            past(&between),
            [
                "the SM limit of 30 % is in force for 3 % of its kernels: 97 % come by graphs, which this build \
                 does not limit",
                "9.0 GiB of memory asked for past the library, in 12 calls of cuMemAllocFromPoolAsync"
            ]
        );
        let array = Intercepted {
            function: "cuArray3DCreate_v2".to_owned(),
            past: 1,
            past_bytes: 1 << 20,
            past_unsized: 1,
            ..Intercepted::default()
        };
        assert_eq!(
            memory_past(&[&array]),
            "at least 1.0 MiB of memory asked for past the library, in 1 call of cuArray3DCreate_v2"
        );
        let all = KernelWays { limited: 3, ..KernelWays::default() };
        assert!(past(&Interception { kernels: Some(all), ..between.clone() }).len() == 1);
        assert!(past(&Interception { sm_limit: None, functions: Vec::new(), ..between }).is_empty());
    }

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
