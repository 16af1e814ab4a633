//! Launches that are counted by context and not told apart by stream, with what the driver
//! says: whatever the threads do, and at every moment.

use std::collections::BTreeMap;

use gpumap::observation::ProcessActivity;

use super::bench::{self, Bench};
use super::{ALL, ENDS};

/// The sums of each context: launches, graphs, kernels of graphs, captured kernels, and so on.
type Sums = BTreeMap<u64, [u64; 14]>;

fn counted(process: &ProcessActivity) -> Sums {
    let mut all = Sums::new();
    for s in &process.streams {
        let sums = [
            s.launches,
            s.graph_launches,
            s.graph_kernels,
            s.captured,
            s.host_functions,
            s.copies,
            s.bytes.to_device,
            s.bytes.from_device,
            s.bytes.on_device,
            s.bytes.unknown,
            s.fills,
            s.fill_bytes,
            s.waits,
            s.queries,
        ];
        add(&mut all, s.context, &sums);
    }
    all
}

fn add(all: &mut Sums, context: u64, sums: &[u64]) {
    if sums.iter().any(|sum| *sum != 0) {
        let row = all.entry(context).or_default();
        row.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
    }
}

/// `stream CONTEXT STREAM SUMS…`
fn real(truth: &str) -> Sums {
    let mut all = Sums::new();
    for line in truth.lines().filter(|line| line.starts_with("stream ")) {
        let numbers: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        add(&mut all, numbers[0], &numbers[2..]);
    }
    all
}

/// Make sure that the sums of each context are what the driver says, also of kernels that
/// are captured, with several threads and contexts.
#[test]
fn every_call() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    for mode in bench::modes() {
        let mut session = bench.session_by_context(mode, 64);
        for (client, threads, every) in
            [(&bench.client, "1", 64), (&bench.client, "8", 64), (&bench.own, "3", 1)]
        {
            if every == 1 {
                drop(session);
                session = bench.session_by_context(mode, every);
            }
            let ends = if threads == "1" { ENDS } else { &[] };
            // Launches that fail and are not looked at count as launches.
            let all: Vec<&str> =
                ALL.iter().copied().filter(|word| every == 1 || !word.starts_with("bad")).collect();
            let words = [&["-t", threads], &all[..], ends].concat();
            let (process, truth) = bench.run_in(&mut session, client, &words);
            assert_eq!(counted(&process), real(&truth), "{mode:?}, {threads} threads");
            assert!(process.ended_ns.is_some() && process.lost.is_empty());
        }
    }
}

/// Make sure that sums never go down while threads come and go and change contexts, and that
/// nothing is missing at the end.
#[test]
fn at_every_moment() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.session_by_context(bench::best_mode(), 64);
    let words =
        ["-t", "4", "device:0", "stream", "launch:20000", "push:2", "launch:30000", "pop", "launch:20000"];
    let mut client = bench.start(&bench.client, &words);
    let pid = client.id();
    let (mut last, mut ended) = (0, None);
    let mut gone = false;
    while ended.is_none() {
        gone = gone || client.try_wait().unwrap().is_some();
        for process in session.read().unwrap().processes.into_iter().filter(|process| process.pid == pid) {
            let now: u64 = process.streams.iter().map(|stream| stream.launches).sum();
            assert!(now >= last, "{now} after {last}");
            last = now;
            ended = process.ended_ns.map(|_| process);
        }
    }
    let _ended = client.wait();
    let truth = bench.truth_text();
    assert_eq!(counted(&ended.unwrap()), real(&truth), "{}", bench::called(&truth).len());
}
