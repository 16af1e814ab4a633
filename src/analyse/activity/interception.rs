//! What a library before the driver takes of a process's calls.

use super::amounts::{self, seconds};
use super::process::Reader;
use crate::observation::{FIRST_DURATION_BITS, InterceptedCalls, ProcessActivity};
use crate::report::{Intercepted, Interception};

impl Reader<'_> {
    /// The calls of a process that went through such a library; `None` if none did.
    pub(super) fn interception(&self, counted: &ProcessActivity) -> Option<Interception> {
        let first = counted.intercepted.first()?;
        debug_assert!(!first.function.is_empty());
        let limits = self.neighbours.process(counted).and_then(|process| process.vgpu.as_deref());
        let functions = counted.intercepted.iter().map(|calls| self.function(counted, calls));
        Some(Interception {
            library: limits.and_then(|limits| limits.library.as_ref()).map(|file| file.path.clone()),
            region_processes: limits.and_then(|limits| limits.region_processes),
            functions: functions.collect(),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "means and rates are no exact numbers")]
    fn function(&self, counted: &ProcessActivity, calls: &InterceptedCalls) -> Intercepted {
        let since = self.since.intercepted(counted, calls).unwrap_or_else(|| calls.clone());
        let measured = (since.reached > 0).then(|| seconds(since.ns) / since.reached as f64);
        let library = typical(&since).zip(self.probe).map(|(typical, probe)| (typical - probe).max(0.0));
        let per = |amount: f64| self.interval.filter(|length| *length > 0.0).map(|length| amount / length);
        Intercepted {
            function: calls.function.clone(),
            calls: calls.calls,
            reached: calls.reached,
            calls_per_second: per(since.calls as f64),
            measured_seconds: measured,
            library_seconds: library,
            share: library.and_then(|library| per(library * since.reached as f64)),
            durations: amounts::durations(&since.durations),
        }
    }
}

/// The time of the call in the middle, to a factor of the root of two: the middle of its
/// class. The mean is of no use here, because a thread that loses the CPU between the two
/// probes takes a thousand times longer.
fn typical(calls: &InterceptedCalls) -> Option<f64> {
    let half = calls.durations.iter().fold(0, |all: u64, calls| all.saturating_add(*calls)).div_ceil(2);
    let mut below = 0_u64;
    let class = calls.durations.iter().position(|calls| {
        below = below.saturating_add(*calls);
        half > 0 && below >= half
    })?;
    let end = 1_u64.checked_shl(FIRST_DURATION_BITS.saturating_add(u32::try_from(class).ok()?))?;
    Some(seconds(end) * std::f64::consts::FRAC_1_SQRT_2)
}
