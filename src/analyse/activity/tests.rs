use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::model::{CountTable, DeviceType, GpuEvidence, GpuKey};
use crate::observation::{
    Answer, ContextSums, CopiedBytes, DURATION_CLASSES, ErrorCount, GpuApi, HeldDevice, InterceptedCalls,
    NamedDevice, ProcessActivity, StreamSums,
};
use crate::report::GpuUse;

const SECOND: u64 = 1_000_000_000;

/// A node of four GPUs with Slurm's jobs.
fn node() -> Observation {
    serde_json::from_str(include_str!("../../../fixtures/nodes/slurm-jobs.json")).unwrap()
}

/// The key of the GPU with this minor.
fn key(minor: u32) -> GpuKey {
    let gpus = crate::gpu::inventory(&node().gpu_facts);
    gpus.into_iter().find(|gpu| gpu.minor == Some(minor)).unwrap().key
}

/// The UUID of that GPU, as the driver tells it.
fn uuid(minor: u32) -> String {
    key(minor).trim_start_matches("GPU-").to_owned()
}

fn stream(context: u64, handle: u64, launches: u64) -> StreamSums {
    StreamSums {
        context,
        stream: handle,
        launches,
        first_ns: SECOND,
        last_ns: 5 * SECOND,
        ..StreamSums::default()
    }
}

fn context(handle: u64, device: Option<u32>) -> ContextSums {
    ContextSums { context: handle, device, bytes: 100, peak_bytes: 200, ..ContextSums::default() }
}

fn process(pid: u32, streams: Vec<StreamSums>, contexts: Vec<ContextSums>) -> ProcessActivity {
    let start_time = node().processes.iter().find(|it| it.pid == pid).map_or(1, |it| it.start_time);
    ProcessActivity { id: u64::from(pid), pid, start_time, streams, contexts, ..ProcessActivity::default() }
}

fn reading(clock_ns: u64, processes: Vec<ProcessActivity>) -> ActivityReading {
    let sums = Activity { clock_ns, since_ns: SECOND, sampled_every: 64, processes, ..Activity::default() };
    let at = "2026-11-21T09:16:51Z".into();
    ActivityReading { at, every_ms: 2000, whole_node: true, sums, ..ActivityReading::default() }
}

fn with(mut node: Observation, reading: ActivityReading) -> Observation {
    node.activity = Some(Box::new(reading));
    node
}

fn holding(mut node: Observation, pid: u32, minors: &[u32]) -> Observation {
    let device =
        |minor: &u32| HeldDevice { kind: DeviceType::Char, major: 195, minor: *minor, fds: 1, mapped: false };
    let held = minors.iter().map(device).collect();
    let process = node.processes.iter_mut().find(|process| process.pid == pid).unwrap();
    process.detail.as_mut().unwrap().devices = Answer::Known(held);
    node
}

fn report(follower: &mut Follower, observation: &Observation) -> report::Activity {
    *follower
        .report(observation, &CallerAllocation::default(), &TimeLimit::default())
        .unwrap()
        .activity
        .unwrap()
}

fn only(activity: &report::Activity) -> &GpuUse {
    let [process] = activity.processes.as_slice() else { panic!("{activity:?}") };
    let [one] = process.gpus.as_slice() else { panic!("{process:?}") };
    one
}

/// Make sure that rates are those between two readings, and sums those since
/// counting began.
#[test]
fn two_readings() {
    let mut follower = Follower::new(true);
    let at = |clock, launches| {
        with(
            node(),
            reading(clock, vec![process(115, vec![stream(7, 0, launches)], vec![context(7, Some(0))])]),
        )
    };
    let first = report(&mut follower, &at(2 * SECOND, 100));
    assert_eq!((first.interval_seconds, first.per_second), (None, None));
    assert_eq!(first.total.launches, 100);
    let second = report(&mut follower, &at(4 * SECOND, 150));
    let one = only(&second);
    assert_eq!(second.interval_seconds, Some(2.0));
    assert_eq!((one.counts.launches, one.interval.unwrap().launches), (150, 50));
    assert!((one.per_second.unwrap().launches - 25.0).abs() < 1e-9);
    assert_eq!(one.streams.as_ref().unwrap()[0].interval.unwrap().launches, 50);
    assert_eq!((one.memory.now_bytes, one.memory.peak_bytes), (100, 200));
    let [owner] = second.owners.as_slice() else { panic!() };
    assert_eq!((owner.owner.as_ref().unwrap().job_id, owner.interval.unwrap().launches), (Some(4711), 50));
}

/// Make sure that a handle which is given out again is counted anew, and so is a
/// process that has another's pid, or executed a program.
#[test]
fn begun_again() {
    let of = |change: &dyn Fn(&mut ProcessActivity), launches| {
        let mut follower = Follower::new(false);
        let old = process(115, vec![stream(7, 0x10, 100)], vec![context(7, Some(0))]);
        report(&mut follower, &with(node(), reading(2 * SECOND, vec![old])));
        let mut new = process(115, vec![stream(7, 0x10, launches)], vec![context(7, Some(0))]);
        change(&mut new);
        let answer = report(&mut follower, &with(node(), reading(4 * SECOND, vec![new])));
        only(&answer).interval.unwrap().launches
    };
    assert_eq!(of(&|_| {}, 130), 30);
    assert_eq!(of(&|_| {}, 30), 30);
    assert_eq!(of(&|it| it.id += 1, 130), 130);
    assert_eq!(of(&|it| it.start_time += 1, 130), 130);
}

/// Make sure that counts of another gpumap are not taken for those of before.
#[test]
fn another_counter() {
    let mut follower = Follower::new(false);
    let all = || vec![process(115, vec![stream(7, 0, 100)], vec![context(7, Some(0))])];
    report(&mut follower, &with(node(), reading(2 * SECOND, all())));
    let mut other = reading(4 * SECOND, all());
    other.sums.since_ns = 3 * SECOND;
    assert_eq!(report(&mut follower, &with(node(), other)).interval_seconds, None);
}

/// Make sure that a process is told once more when it has ended, with all that was
/// known of it, and then no more.
#[test]
fn ended() {
    let mut follower = Follower::new(false);
    let at = |ended: Option<u64>| {
        let mut its = process(115, vec![stream(7, 0, 100)], vec![context(7, Some(0))]);
        its.ended_ns = ended;
        its
    };
    let alive = holding(node(), 115, &[0]);
    let before = report(&mut follower, &with(alive, reading(2 * SECOND, vec![at(None)])));
    let mut without = node();
    without.processes.retain(|process| process.pid != 115);
    let last = report(&mut follower, &with(without.clone(), reading(4 * SECOND, vec![at(Some(3 * SECOND))])));
    let [process] = last.processes.as_slice() else { panic!("{last:?}") };
    assert_eq!(process.ended_at, Some("2026-11-21T09:16:50.000Z".into()));
    assert_eq!(process.owner, before.processes[0].owner);
    assert_eq!((&only(&last).gpu, only(&last).by), (&Some(key(0)), only(&before).by));
    assert_eq!(only(&last).held, Some(true));
    assert!(report(&mut follower, &with(without, reading(6 * SECOND, vec![]))).processes.is_empty());
    assert!(follower.known.is_empty());
}

/// Make sure that the surest witness is asked first, and that without one the GPU is
/// not known.
#[test]
fn witnesses() {
    let of = |node: Observation, pid: u32, device: Option<u32>, named: Vec<NamedDevice>| {
        let mut its = process(pid, vec![stream(7, 0, 1)], vec![context(7, device)]);
        its.devices = named;
        let answer = report(&mut Follower::default(), &with(node, reading(2 * SECOND, vec![its])));
        let one = only(&answer);
        (one.gpu.clone(), one.by)
    };
    let named = |ordinal, minor| NamedDevice {
        api: GpuApi::Cuda,
        ordinal,
        uuid: uuid(minor).to_uppercase(),
        names_instance: false,
    };
    // Process 142 of job 4712 has GPUs 1 and 2, and counts them 2, 1 in PCI order.
    assert_eq!(of(node(), 142, Some(1), vec![named(1, 2)]), (Some(key(2)), GpuEvidence::Driver));
    assert_eq!(of(node(), 142, Some(1), vec![named(0, 2)]), (Some(key(1)), GpuEvidence::Resolved));
    assert_eq!(of(node(), 142, Some(2), vec![]), (None, GpuEvidence::Unknown));
    assert_eq!(of(holding(node(), 142, &[2]), 142, None, vec![]), (Some(key(2)), GpuEvidence::Held));
    assert_eq!(of(holding(node(), 142, &[1, 2]), 142, None, vec![]), (None, GpuEvidence::Unknown));
    // Process 143 changed its environment: nobody knows which one the driver read.
    assert_eq!(of(node(), 143, Some(0), vec![]), (None, GpuEvidence::Unknown));
    let mut unread = node();
    let found = unread.processes.iter_mut().find(|process| process.pid == 142).unwrap();
    found.detail.as_mut().unwrap().live = Answer::Missing("no right".to_owned());
    assert_eq!(of(unread, 142, Some(1), vec![]), (None, GpuEvidence::Unknown));
    // HIP's ordinals are not CUDA's.
    let mut hip = process(142, vec![], vec![context(7, Some(0))]);
    hip.contexts[0].api = GpuApi::Hip;
    let answer = report(&mut Follower::default(), &with(holding(node(), 142, &[1]), reading(2, vec![hip])));
    assert_eq!(only(&answer).by, GpuEvidence::Unknown);
}

/// Make sure that variables which a process set before its first call tell its GPU where a look
/// before the call and one after it saw them, also when the process has ended since.
#[test]
fn looks_about_the_first_call() {
    let of = |looks: &[(u64, u64)], is_there: bool| {
        let mut follower = Follower::default();
        for (from, until) in looks {
            follower.look(&node(), (*from, *until), &TimeLimit::default()).unwrap();
        }
        let mut its = process(143, vec![stream(7, 0, 1)], vec![context(7, Some(0))]);
        its.first_ns = 5 * SECOND;
        let mut now = node();
        if !is_there {
            its.ended_ns = Some(7 * SECOND);
            now.processes.retain(|process| process.pid != 143);
        }
        let answer = report(&mut follower, &with(now, reading(8 * SECOND, vec![its])));
        (only(&answer).gpu.clone(), only(&answer).by)
    };
    let known = (Some(key(1)), GpuEvidence::Resolved);
    let unknown = (None, GpuEvidence::Unknown);
    let (before, during, after, late) = ((3, 4), (4, 6), (6, 7), (6, 8));
    let at = |all: &[(u64, u64)]| all.iter().map(|(a, b)| (a * SECOND, b * SECOND)).collect::<Vec<_>>();
    assert_eq!(of(&at(&[before, after]), true), known);
    assert_eq!(of(&at(&[before, after]), false), known);
    // What was seen on one side alone may have changed.
    for looks in [&[before][..], &[after], &[during, after], &[before, during]] {
        assert_eq!(of(&at(looks), true), unknown, "{looks:?}");
    }
    assert_eq!(of(&at(&[before, late]), false), unknown);
}

/// Make sure that what ended processes did stays with their owner, that sums never go down
/// and peaks are told within their bounds, and that a gpumap which goes on adds to them.
#[test]
fn totals_of_owners() {
    let mut follower = Follower::default();
    let of = |pid: u32, launches, bytes, peak, ended: Option<u64>| {
        let mut its = process(pid, vec![stream(7, 0, launches)], vec![context(7, Some(0))]);
        (its.since_ns, its.ended_ns) = (SECOND, ended);
        (its.contexts[0].bytes, its.contexts[0].peak_bytes) = (bytes, peak);
        its
    };
    let read = |follower: &mut Follower, clock: u64, processes| {
        let observation = with(node(), reading(clock * SECOND, processes));
        report(follower, &observation);
        let mut kept = reading(clock * SECOND, Vec::new());
        follower.keep(&mut kept);
        let all = kept.totals.clone();
        let told = ledger::totals_of(&with(node(), kept));
        let job =
            told.into_iter().find(|one| one.owner.as_ref().is_some_and(|owner| owner.job_id == Some(4711)));
        (all, job.unwrap())
    };
    follower.begin(&reading(SECOND, Vec::new()).sums);
    let (_, first) = read(&mut follower, 3, vec![of(114, 10, 100, 300, None), of(115, 5, 150, 200, None)]);
    assert_eq!((first.processes, first.alive, first.gpus[0].counts.launches), (2, 2, 15));
    assert_eq!((first.gpus[0].peak_bytes, first.gpus[0].peak_at_most_bytes), (300, 500));
    assert_eq!(first.gpus[0].idle_share, Some(0.0));
    let (_, second) =
        read(&mut follower, 5, vec![of(114, 10, 100, 300, Some(4 * SECOND)), of(115, 5, 150, 200, None)]);
    assert_eq!((second.processes, second.alive, second.gpus[0].counts.launches), (2, 1, 15));
    // Nothing happened in the second of two intervals.
    assert_eq!(second.gpus[0].idle_share, Some(0.5));
    let (kept, third) = read(&mut follower, 7, vec![of(115, 9, 150, 350, Some(6 * SECOND))]);
    assert_eq!((third.processes, third.alive, third.gpus[0].counts.launches), (2, 0, 19));
    assert_eq!((third.gpus[0].peak_bytes, third.gpus[0].now_bytes, third.partial), (350, 0, false));
    assert_eq!((third.seconds, third.gpus[0].used_seconds), (5.0, 3.0));
    let (_, last) = read(&mut follower, 9, Vec::new());
    assert_eq!((last.gpus, last.processes, last.seconds), (third.gpus, third.processes, third.seconds));
    let mut next = Follower::default();
    next.resume(kept);
    let (_, more) = read(&mut next, 9, vec![of(115, 2, 0, 0, None)]);
    assert_eq!((more.processes, more.gpus[0].counts.launches, more.partial), (3, 21, true));
}

/// Make sure that a process which holds a GPU and made no call is told as such.
#[test]
fn quiet_holders() {
    let mut reading = reading(8 * SECOND, Vec::new());
    let start_time = node().processes.iter().find(|it| it.pid == 115).unwrap().start_time;
    reading.sums.quiet = vec![QuietProcess { pid: 115, start_time, since_ns: 2 * SECOND }];
    let answer = report(&mut Follower::default(), &with(holding(node(), 115, &[0]), reading.clone()));
    let [one] = answer.quiet.as_slice() else { panic!("{answer:?}") };
    assert_eq!((one.pid, &one.gpus, one.owner.as_ref().unwrap().job_id), (115, &vec![key(0)], Some(4711)));
    assert!(one.since == "2026-11-21T09:16:45.000Z".into() && !one.partial);
    assert!(report(&mut Follower::default(), &with(node(), reading.clone())).quiet.is_empty());
    // Its calls may have found no room: then it may have made some.
    reading.sums.lost = vec![LostRoom { map: CountTable::Processes, count: 1, uid: None }];
    let answer = report(&mut Follower::default(), &with(holding(node(), 115, &[0]), reading));
    assert!(answer.quiet[0].partial, "{answer:?}");
}

/// Make sure that the time in a library before the driver is told only where it is far longer
/// than what a probe takes in a program whose caches are cold.
#[test]
fn time_in_a_library() {
    let told = |quick_ns: u64| {
        let calls = InterceptedCalls {
            function: "cuLaunchKernel".to_owned(),
            calls: 10,
            reached: 10,
            ns: 10 * quick_ns,
            quick_ns: Some(quick_ns),
            ..InterceptedCalls::default()
        };
        let mut its = process(115, vec![stream(7, 0, 3)], vec![context(7, Some(0))]);
        its.intercepted = vec![calls];
        let mut reading = reading(8 * SECOND, vec![its]);
        reading.sums.probe_ns = Some(500);
        let answer = report(&mut Follower::default(), &with(node(), reading));
        let one = answer.processes[0].interception.clone().unwrap().functions.remove(0);
        [one.library_seconds, one.library_at_most_seconds].map(|it| it.map(|it| (it * 1e9).round()))
    };
    assert_eq!(told(490), [None, Some(125.0)]);
    assert_eq!(told(630), [None, Some(255.0)]);
    assert_eq!(told(1400), [None, Some(1025.0)]);
    assert_eq!(told(2200), [Some(1700.0), None]);
}

/// Make sure that calls of an unknown context are put beside others on the same GPU.
#[test]
fn one_line_a_gpu() {
    let its = process(115, vec![stream(0, 0, 3), stream(7, 0, 4)], vec![context(7, Some(0))]);
    let node = holding(node(), 115, &[0]);
    let answer = report(&mut Follower::default(), &with(node, reading(2 * SECOND, vec![its])));
    let one = only(&answer);
    assert_eq!((one.counts.launches, one.by, one.ordinal), (7, GpuEvidence::Held, Some(0)));
}

/// Make sure that a node's answer has what is used beside the four sets: nothing for
/// those who made no call, unknown for those whose calls are not counted.
#[test]
fn fifth_set() {
    let its = process(115, vec![stream(7, 0, 3)], vec![context(7, Some(0))]);
    let all = |whole_node, uncovered: Vec<u32>| {
        let mut reading = reading(8 * SECOND, vec![its.clone()]);
        reading.whole_node = whole_node;
        reading.sums.uncovered = uncovered
            .into_iter()
            .map(|pid| crate::observation::Uncovered {
                file: "/x".into(),
                function: None,
                counted: false,
                why: "static".to_owned(),
                pid: Some(pid),
            })
            .collect();
        let answer =
            crate::analyse::node(&with(node(), reading), &CallerAllocation::default(), &TimeLimit::default())
                .unwrap();
        let owners = answer.owners.unwrap();
        let job =
            |id| owners.iter().find(|row| row.depth == 0 && row.owner.job_id == Some(id)).unwrap().clone();
        (job(4711), job(4712))
    };
    let (user, idler) = all(true, vec![]);
    assert_eq!((user.used.unwrap().gpus, user.idle_seconds), (Some(vec![key(0)]), Some(3)));
    assert_eq!((idler.used.unwrap().gpus, idler.idle_seconds), (Some(vec![]), None));
    let (user, idler) = all(false, vec![]);
    assert_eq!(user.used.unwrap().gpus, Some(vec![key(0)]));
    assert_eq!(idler.used.unwrap().gpus, None);
    let (_, idler) = all(true, vec![143]);
    let used = idler.used.unwrap();
    assert_eq!((used.gpus, used.why.len()), (None, 1));
}

/// Make sure that errors have their names, and count from reading to reading.
#[test]
fn errors() {
    let mut follower = Follower::default();
    let at = |clock, count| {
        let mut its = process(115, vec![], vec![context(7, Some(0))]);
        its.errors = vec![
            ErrorCount { api: GpuApi::Cuda, code: 700, count },
            ErrorCount { api: GpuApi::Hip, code: 2, count: 1 },
            ErrorCount { api: GpuApi::Cuda, code: 123_456, count: 1 },
        ];
        with(node(), reading(clock, vec![its]))
    };
    report(&mut follower, &at(2, 3));
    let answer = report(&mut follower, &at(4, 8));
    let [illegal, memory, strange] = answer.processes[0].errors.as_slice() else { panic!() };
    assert_eq!((illegal.name.as_deref(), illegal.interval), (Some("CUDA_ERROR_ILLEGAL_ADDRESS"), Some(5)));
    assert!(illegal.sticky && !memory.sticky && strange.name.is_none());
    assert_eq!(memory.name.as_deref(), Some("hipErrorOutOfMemory"));
}

prop_compose! {
    fn any_stream()(
        context in 0..3_u64, handle in 0..3_u64, launches: u64, copied: u64, wait_ns: u64, last_ns: u64,
        durations in prop::array::uniform16(any::<u64>()),
    ) -> StreamSums {
        let bytes = CopiedBytes { to_device: copied, ..CopiedBytes::default() };
        StreamSums { context, stream: handle, launches, bytes, wait_ns, last_ns, durations, ..StreamSums::default() }
    }
}

prop_compose! {
    fn any_process()(
        pid in prop::sample::select(vec![115_u32, 143, 159, 1]),
        id in 0..2_u64,
        streams in prop::collection::vec(any_stream(), 0..4),
        devices in prop::collection::vec((0..3_u64, prop::option::of(0..3_u32)), 0..4),
        ended in prop::option::of(any::<u64>()),
    ) -> ProcessActivity {
        let contexts = devices.into_iter().map(|(handle, device)| context(handle, device)).collect();
        ProcessActivity { id, ended_ns: ended, ..process(pid, streams, contexts) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Make sure that whatever the readings are and however they follow one another,
    /// an interval is never more than all that was counted, nothing panics, and the
    /// order of processes in a reading does not matter.
    #[test]
    fn any_readings(readings in prop::collection::vec((any::<u64>(), prop::collection::vec(any_process(), 0..5)), 1..4)) {
        let (mut one, mut other) = (Follower::new(true), Follower::new(true));
        for (clock, mut processes) in readings {
            // One reading has a process and a stream once.
            let unique: BTreeMap<_, _> =
                processes.drain(..).map(|process| ((process.pid, process.id), process)).collect();
            let mut processes: Vec<ProcessActivity> = unique.into_values().collect();
            for process in &mut processes {
                process.streams.sort_by_key(|sums| (sums.context, sums.stream));
                process.streams.dedup_by_key(|sums| (sums.context, sums.stream));
                process.contexts.sort_by_key(|sums| sums.context);
                process.contexts.dedup_by_key(|sums| sums.context);
            }
            let answer = report(&mut one, &with(node(), reading(clock, processes.clone())));
            for use_ in answer.processes.iter().flat_map(|process| &process.gpus) {
                if let Some(interval) = use_.interval {
                    prop_assert!(interval.launches <= use_.counts.launches);
                    prop_assert!(interval.copied_bytes() <= use_.counts.copied_bytes());
                }
                prop_assert!(use_.per_second.is_none_or(|rates| rates.launches >= 0.0));
                prop_assert!(use_.idle_seconds.is_none_or(|idle| idle >= 0.0));
            }
            processes.reverse();
            let reversed = report(&mut other, &with(node(), reading(clock, processes)));
            prop_assert_eq!(answer.processes, reversed.processes);
        }
    }
}

/// Make sure that the classes of durations are where the facts say.
#[test]
fn duration_classes() {
    let mut counts = [0; DURATION_CLASSES];
    (counts[0], counts[1], counts[DURATION_CLASSES - 1]) = (1, 2, 3);
    let classes = amounts::durations(&counts);
    let bounds: Vec<_> =
        classes.iter().map(|class| (class.from_seconds, class.below_seconds, class.calls)).collect();
    assert_eq!(bounds, [(0.0, Some(128e-9), 1), (128e-9, Some(256e-9), 2), (2_097_152e-9, None, 3)]);
}

/// Make sure that a process of this pid that started at another time is not meant.
#[test]
fn another_of_this_pid() {
    let mut its = process(115, vec![stream(7, 0, 3)], vec![context(7, Some(0))]);
    its.start_time += 1;
    let observation = with(holding(node(), 115, &[0]), reading(2 * SECOND, vec![its]));
    let answer =
        crate::analyse::node(&observation, &CallerAllocation::default(), &TimeLimit::default()).unwrap();
    let mut processes = answer.cgroups.iter().flat_map(|cgroup| &cgroup.processes);
    let found = processes.find(|process| process.pid == 115).unwrap();
    assert_eq!(found.used.clone().unwrap().gpus, Some(vec![]));
    assert!(answer.activity.unwrap().processes.is_empty());
}
