//! HIP, by the same programs: with what a stand-in of its runtime says was really
//! called. Its functions begin as those of Debian's library do.

use std::collections::BTreeSet;

use gpumap::observation::GpuApi;

use super::bench::{self, Bench, compare_threads};

/// Every kind of call that the client makes.
const ALL: &[&str] = &[
    "device:1",
    "stream",
    "launch:100",
    "legacy:4",
    "own:5",
    "together:7",
    "further:6",
    "module:8",
    "config:9",
    "function:3",
    "graph:4",
    "copies:10",
    "fills:9",
    "memory:1000",
    "waits:3",
    "bad:2",
    "short:4",
    "uuid:1",
    "device:0",
    "launch:11",
    "memory:500",
    "current",
];

/// Make sure that every sum is what the runtime says, whatever the probes, the variant of
/// the functions and the number of threads.
#[test]
fn every_call() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::hip(&root);
    let _held = bench.hold();
    for mode in bench::modes() {
        let mut all = BTreeSet::new();
        let mut session = bench.session(mode, 1);
        for (client, threads) in [(&bench.client, "1"), (&bench.own, "3"), (&bench.client, "8")] {
            let words = [&["-t", threads], ALL].concat();
            let (process, truth) = bench.run_in(&mut session, client, &words);
            session.nothing_missing();
            let what = format!("{mode:?}, {threads} threads");
            compare_threads(&process, &truth, threads.parse().unwrap(), &what);
            all.extend(bench::called(&truth));
            assert!(!process.partial);
            let device = &process.devices[0];
            assert_eq!((device.ordinal, &device.uuid[..8]), (1, "31313131"));
        }
        bench::assert_all_called(GpuApi::Hip, &all);
    }
}

/// Make sure that launches are counted whole where few of them are timed, and that a
/// device that was chosen before counting began is unknown until it is named.
#[test]
fn sampled_and_late() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::hip(&root);
    let (process, truth) =
        bench.run(bench::best_mode(), 64, &bench.client, &["-t", "3", "stream", "launch:640"]);
    compare_threads(&process, &truth, 3, "sampled");

    let words = ["device:1", "launch:50", "stop", "launch:3", "current", "launch:4"];
    let mut client = bench.start(&bench.client, &words);
    bench::read_line(&mut client, "stopped");
    let mut session = bench.session(bench::best_mode(), 1);
    bench::go_on(&mut client);
    assert!(client.wait().unwrap().success());
    let process = bench::read(&mut session, client.id());
    let mut launches: Vec<(u64, u64)> =
        process.streams.iter().map(|stream| (stream.context, stream.launches)).collect();
    launches.sort_unstable();
    assert_eq!((launches, process.partial), (vec![(0, 3), (2, 4)], true));
}
