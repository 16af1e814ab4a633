//! One process: what it did on each GPU, and what a library before the driver takes of its
//! calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::amounts::{self, Since, rates, seconds};
use super::clock::{Clock, Waiting};
use super::device::{Meaning, Witnesses};
use super::error_name;
use super::neighbours::{FirstLook, Neighbours, ProcessLocation, SetFlags};
use crate::model::{GpuEvidence, GpuKey, InForce, InOrder as _, Owner};
use crate::observation::{
    CallUnderWay, ContextSums, DURATION_CLASSES, ErrorCount, GpuApi, InterceptedCalls, ProcessActivity,
    ResolvedDevice, StreamSums,
};
use crate::report::{
    ActiveProcess, CallError, CallNow, GpuUse, Intercepted, Interception, KernelWays, MemoryUse, StreamUse,
    Vgpu, Work,
};

/// A device of a process: of which interface, and which one by its own count.
pub(super) type DeviceKey = (GpuApi, Option<u32>);

/// What is known of a process from readings before.
#[derive(Debug, Default)]
pub(super) struct Known {
    place: Option<ProcessLocation>,
    devices: HashMap<DeviceKey, (Meaning, SetFlags)>,
    /// What was seen of it about when it made its first call.
    pub(super) first_look: FirstLook,
    /// Whose it was when that was first known: its sums stay there.
    pub(super) owner: Option<Owner>,
}

impl Known {
    /// Which GPU a device is.
    pub(super) fn meaning(&self, device: DeviceKey) -> Option<&Meaning> {
        self.devices.get(&device).map(|(meaning, _)| meaning)
    }

    /// Whether it is known that it belongs to no job, pod, container or unit.
    pub(super) fn is_nobodys(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.owner.is_none())
    }

    /// The devices of which the GPU is known.
    pub(super) fn resolved(&self) -> Vec<ResolvedDevice> {
        let one = |((api, ordinal), (meaning, _)): (&DeviceKey, &(Meaning, SetFlags))| {
            let (gpu, instance) = (meaning.gpu.clone()?, meaning.instance.clone());
            Some(ResolvedDevice { api: *api, ordinal: *ordinal, gpu, instance, by: meaning.by })
        };
        let mut all: Vec<ResolvedDevice> = self.devices.iter().filter_map(one).collect();
        all.order_by_key(|one| (one.api, one.ordinal));
        all
    }
}

/// Reads processes of one reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) clock: Clock,
    pub(super) since: &'a Since<'a>,
    /// Seconds since the reading before.
    pub(super) interval: Option<f64>,
    pub(super) neighbours: &'a Neighbours<'a>,
    /// Whether to list streams.
    pub(super) streams: bool,
    /// Seconds that a probe adds to a time before the driver.
    pub(super) probe: Option<f64>,
}

/// What was counted on one device.
#[derive(Debug, Default)]
pub(super) struct Counted<'a> {
    pub(super) streams: Vec<&'a StreamSums>,
    pub(super) contexts: Vec<&'a ContextSums>,
    /// Calls under way now, and at the reading before.
    calls: Vec<&'a CallUnderWay>,
    before: Vec<&'a CallUnderWay>,
}

impl Reader<'_> {
    /// One process for an answer. What is learned of it is kept in `known`.
    pub(super) fn process(&self, counted: &ProcessActivity, known: &mut Known) -> ActiveProcess {
        if let Some(place) = self.neighbours.place(counted) {
            known.place = Some(place);
        }
        let place = known.place.clone();
        known.owner = known.owner.take().or_else(|| place.as_ref().and_then(|place| place.owner.clone()));
        let mut gpus: Vec<GpuUse> = Vec::new();
        // Calls that it made before its context was known may be on the GPU of another
        // of its devices.
        let mut places: HashMap<(GpuApi, GpuKey, Option<GpuKey>), usize> = HashMap::new();
        for (device, sums) in by_device(counted, self.since.calls(counted)) {
            let (meaning, sets) = self.meaning(counted, device, known);
            let one = self.on_device(counted, device, &sums, meaning, sets);
            if one.counts == Work::default()
                && one.memory == MemoryUse::default()
                && one.waiting_seconds.is_none()
            {
                continue;
            }
            let key = one.gpu.clone().map(|gpu| (one.api, gpu, one.instance.clone()));
            let place = key.map(|key| *places.entry(key).or_insert(gpus.len()));
            match place.and_then(|place| gpus.get_mut(place)) {
                Some(same) => merge(same, one, self.interval),
                None => gpus.push(one),
            }
        }
        let busy = |one: &GpuUse| (one.interval.map_or(0, |work| work.enqueued()), one.counts.enqueued());
        gpus.order_by_key(|one| Reverse(busy(one)));
        let interception = self.interception(counted, &gpus);
        let place = place
            .map(|place| (Some(place.cgroup), place.cgroup_hex, place.owner, place.user, place.user_hex));
        let (cgroup, cgroup_hex, owner, user, user_hex) = place.unwrap_or_default();
        ActiveProcess {
            pid: counted.pid,
            start_time: counted.start_time,
            uid: counted.uid,
            user,
            user_hex,
            comm: counted.comm.lossy().into_owned(),
            comm_hex: counted.comm.hex(),
            cgroup,
            cgroup_hex,
            owner,
            since: self.clock.time(counted.since_ns),
            partial: counted.partial,
            lost: counted.lost.clone(),
            calls: counted.calls.iter().map(|call| self.call(call)).collect(),
            ended_at: counted.ended_ns.map(|ended| self.clock.time(ended)),
            executed: counted.executed,
            errors: counted.errors.iter().map(|error| self.error(counted, error)).collect(),
            gpus,
            interception,
            interception_unseen: counted.interception_unseen,
        }
    }

    /// What the process means by a device, as surely as it ever was known.
    fn meaning(
        &self,
        counted: &ProcessActivity,
        device: DeviceKey,
        known: &mut Known,
    ) -> (Meaning, SetFlags) {
        let now = self.neighbours.process(counted);
        let observed = now.or(known.first_look.process());
        let at_call = known.first_look.asked();
        let witnesses = Witnesses { counted, observed, at_call, gpus: self.neighbours.gpus() };
        let meaning = witnesses.meaning(device.0, device.1);
        let before = known.devices.get(&device);
        let is_surer = |before: &&(Meaning, SetFlags)| before.0.by < meaning.by;
        let meaning = before.filter(is_surer).map_or(meaning, |before| before.0.clone());
        let sets = match (now, &meaning.gpu) {
            (Some(_), Some(gpu)) => self.neighbours.sets((counted.pid, counted.start_time), gpu),
            (Some(_), None) => SetFlags::default(),
            (None, Some(gpu)) => {
                before.map(|before| before.1).or_else(|| known.first_look.sets(gpu)).unwrap_or_default()
            }
            (None, None) => before.map(|before| before.1).unwrap_or_default(),
        };
        known.devices.insert(device, (meaning.clone(), sets));
        (meaning, sets)
    }

    fn on_device(
        &self,
        counted: &ProcessActivity,
        (api, ordinal): DeviceKey,
        sums: &Counted<'_>,
        meaning: Meaning,
        sets: SetFlags,
    ) -> GpuUse {
        let streams = sums.streams.iter().map(|stream| amounts::of_stream(stream));
        let contexts = sums.contexts.iter().map(|context| amounts::of_context(context));
        let counts = streams.chain(contexts).fold(Work::default(), amounts::sum);
        let memory = sums.contexts.iter().map(|context| amounts::memory(context));
        let since: Vec<StreamSums> =
            sums.streams.iter().filter_map(|stream| self.since.stream(counted, stream)).collect();
        let contexts = sums.contexts.iter().filter_map(|context| self.since.context(counted, context));
        let recent = since.iter().map(amounts::of_stream);
        let recent = recent.chain(contexts.map(|context| amounts::of_context(&context)));
        let waiting = Waiting::until(sums.calls.iter().copied(), self.clock.clock_ns());
        let before = Waiting::until(sums.before.iter().copied(), self.since.clock_ns);
        let interval =
            self.interval.map(|_| waiting.of_interval(before, recent.fold(Work::default(), amounts::sum)));
        let timed: Vec<&StreamSums> =
            if self.interval.is_some() { since.iter().collect() } else { sums.streams.clone() };
        let first = sums.streams.iter().map(|stream| stream.first_ns).min();
        let last = sums.streams.iter().map(|stream| stream.last_ns).max();
        let streams =
            self.streams.then(|| sums.streams.iter().map(|stream| self.stream(counted, stream)).collect());
        GpuUse {
            api,
            ordinal,
            gpu: meaning.gpu,
            instance: meaning.instance,
            uuid: meaning.uuid,
            by: meaning.by,
            why: meaning.why,
            allocated: sets.allocated,
            allowed: sets.allowed,
            asked: sets.asked,
            held: sets.held,
            counts: waiting.added_to(counts),
            interval,
            per_second: self.rates(interval),
            memory: memory.fold(MemoryUse::default(), amounts::memory_sum),
            first_used: first.map(|first| self.clock.time(first)),
            last_used: last.map(|last| self.clock.time(last)),
            idle_seconds: match sums.calls.first() {
                Some(_) => Some(0.0),
                None => last.map(|last| self.clock.seconds_since(last)),
            },
            waiting_seconds: waiting.longest,
            durations: amounts::durations(&all_durations(&timed)),
            streams,
        }
    }

    fn stream(&self, counted: &ProcessActivity, sums: &StreamSums) -> StreamUse {
        let interval = self.since.stream(counted, sums).map(|since| amounts::of_stream(&since));
        StreamUse {
            context: format!("{:#x}", sums.context),
            stream: format!("{:#x}", sums.stream),
            counts: amounts::of_stream(sums),
            interval,
            per_second: self.rates(interval),
            idle_seconds: Some(self.clock.seconds_since(sums.last_ns)),
        }
    }

    fn call(&self, call: &CallUnderWay) -> CallNow {
        CallNow {
            tid: call.tid,
            function: call.function.clone(),
            since: self.clock.time(call.since_ns),
            seconds: self.clock.seconds_since(call.since_ns),
            waits: call.waits,
        }
    }

    fn error(&self, counted: &ProcessActivity, error: &ErrorCount) -> CallError {
        CallError {
            api: error.api,
            code: error.code,
            name: error_name::of(error.api, error.code).map(str::to_owned),
            count: error.count,
            interval: self.since.error(counted, error),
            sticky: error_name::is_sticky(error.api, error.code),
        }
    }

    fn rates(&self, work: Option<Work>) -> Option<crate::report::Rates> {
        rates(&work?, self.interval?)
    }
}

/// The sums of a process by device. A stream is on the device of its context.
pub(super) fn by_device<'a>(
    counted: &'a ProcessActivity,
    before: &'a [CallUnderWay],
) -> BTreeMap<DeviceKey, Counted<'a>> {
    let devices: HashMap<(GpuApi, u64), Option<u32>> =
        counted.contexts.iter().map(|context| ((context.api, context.context), context.device)).collect();
    let mut found: BTreeMap<DeviceKey, Counted<'a>> = BTreeMap::new();
    let device_of = |api, context| (api, devices.get(&(api, context)).copied().flatten());
    for context in &counted.contexts {
        found.entry((context.api, context.device)).or_default().contexts.push(context);
    }
    for stream in &counted.streams {
        found.entry(device_of(stream.api, stream.context)).or_default().streams.push(stream);
    }
    for call in &counted.calls {
        found.entry(device_of(call.api, call.context)).or_default().calls.push(call);
    }
    for call in before {
        found.entry(device_of(call.api, call.context)).or_default().before.push(call);
    }
    found
}

fn all_durations(streams: &[&StreamSums]) -> [u64; DURATION_CLASSES] {
    let mut all = [0_u64; DURATION_CLASSES];
    for stream in streams {
        for (class, calls) in all.iter_mut().zip(&stream.durations) {
            *class = class.saturating_add(*calls);
        }
    }
    all
}

/// Adds what was done on the same GPU; it is as sure as the less sure of both.
fn merge(one: &mut GpuUse, other: GpuUse, interval: Option<f64>) {
    one.by = one.by.max(other.by);
    one.ordinal = one.ordinal.or(other.ordinal);
    one.uuid = one.uuid.take().or(other.uuid);
    one.counts = amounts::sum(one.counts, other.counts);
    one.interval = one.interval.zip(other.interval).map(|(a, b)| amounts::sum(a, b));
    one.per_second = one.interval.zip(interval).and_then(|(work, seconds)| rates(&work, seconds));
    one.memory = amounts::memory_sum(one.memory, other.memory);
    one.first_used = [one.first_used.take(), other.first_used].into_iter().flatten().min();
    one.last_used = [one.last_used.take(), other.last_used].into_iter().flatten().max();
    one.idle_seconds = match (one.idle_seconds, other.idle_seconds) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    one.waiting_seconds =
        [one.waiting_seconds, other.waiting_seconds].into_iter().flatten().max_by(f64::total_cmp);
    for class in other.durations {
        match one.durations.iter_mut().find(|known| known.below_seconds == class.below_seconds) {
            Some(known) => known.calls = known.calls.saturating_add(class.calls),
            None => one.durations.push(class),
        }
    }
    one.durations.order_by(|a, b| a.from_seconds.total_cmp(&b.from_seconds));
    if let (Some(streams), Some(more)) = (&mut one.streams, other.streams) {
        streams.extend(more);
    }
    debug_assert!(one.by <= GpuEvidence::Held);
}

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
