//! What a library before the driver takes of a process's calls, and which calls it has no
//! part in.

use super::amounts::{self, seconds};
use super::process::Reader;
use crate::model::InForce;
use crate::observation::{InterceptedCalls, ProcessActivity};
use crate::report::{GpuUse, Intercepted, Interception, KernelWays, Vgpu};

/// What two measurements of a probe's time differ by on a busy machine, as a share of it.
const NOISE: f64 = 0.25;
/// How many times the probe's time a library takes at least if that is told. gpumap measures
/// its probe in a loop, with everything it needs in the caches. In a program that uses much memory
/// between two calls a probe takes up to twice as long, and that cannot be told from
/// the library's own time.
const TOLD: f64 = 2.0;

impl Reader<'_> {
    /// The calls of a process that went through such a library; `None` if none did. `gpus` is
    /// what it did otherwise.
    pub(super) fn interception(&self, counted: &ProcessActivity, gpus: &[GpuUse]) -> Option<Interception> {
        counted.intercepted.first()?;
        let limits = self.neighbours.process(counted).and_then(|process| process.vgpu.as_deref());
        let functions = counted.intercepted.iter().map(|calls| self.function(counted, calls));
        Some(Interception {
            library: limits.and_then(|limits| limits.library.as_ref()).map(|file| file.path.clone()),
            region_processes: limits.and_then(|limits| limits.region_processes),
            functions: functions.collect(),
            kernels: self.interval.map(|_| self.kernels(counted, gpus)),
            sm_limit: limits.and_then(sm_limit),
        })
    }

    /// How the kernels of the interval came.
    fn kernels(&self, counted: &ProcessActivity, gpus: &[GpuUse]) -> KernelWays {
        let graphs = gpus.iter().filter_map(|one| one.interval).map(|work| work.graph_kernels);
        let mut ways = KernelWays { graphs: graphs.fold(0, u64::saturating_add), ..KernelWays::default() };
        for calls in &counted.intercepted {
            let Some(since) = self.since.intercepted(counted, calls) else { continue };
            match calls.function.as_str() {
                name if name.starts_with("cuLaunchCooperative") => {
                    ways.cooperative += since.reached.saturating_add(since.past);
                }
                name if name.starts_with("cuLaunch") => {
                    ways.limited = ways.limited.saturating_add(since.reached);
                    ways.past = ways.past.saturating_add(since.past);
                }
                _ => {}
            }
        }
        ways
    }

    #[expect(clippy::cast_precision_loss, reason = "means and rates are no exact numbers")]
    fn function(&self, counted: &ProcessActivity, calls: &InterceptedCalls) -> Intercepted {
        let since = self.since.intercepted(counted, calls).unwrap_or_else(|| calls.clone());
        let measured = (since.reached > 0).then(|| seconds(since.ns) / since.reached as f64);
        let quick = since.quick_ns.filter(|_| since.reached > 0).map(seconds);
        let (library, at_most) = match quick.zip(self.probe) {
            Some((quick, probe)) if quick - probe >= probe * TOLD => (Some(quick - probe), None),
            Some((quick, probe)) => (None, Some((quick - probe).max(0.0) + probe * NOISE)),
            None => (None, None),
        };
        let per = |amount: f64| self.interval.filter(|length| *length > 0.0).map(|length| amount / length);
        Intercepted {
            function: calls.function.clone(),
            calls: calls.calls,
            reached: calls.reached,
            calls_per_second: per(since.calls as f64),
            measured_seconds: measured,
            library_seconds: library,
            library_at_most_seconds: at_most,
            past: calls.past,
            past_bytes: calls.past_bytes,
            past_unsized: calls.past_unsized,
            share: library.and_then(|library| per(library * since.reached as f64)),
            durations: amounts::durations(&since.durations),
        }
    }
}

/// The smallest SM limit that is in force for a process.
fn sm_limit(limits: &Vgpu) -> Option<u64> {
    let is_held = matches!(limits.sm.in_force, InForce::Yes | InForce::Partly);
    let devices = limits.devices.iter().filter_map(|device| device.sm_limit);
    devices.filter(|limit| is_held && (1..100).contains(limit)).min()
}
