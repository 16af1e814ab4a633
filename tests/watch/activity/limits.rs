//! What finds no room in the kernel's tables is counted and said, and takes nothing
//! from others.

use gpumap::model::CountTable;
use gpumap::observation::StreamSums;

use super::bench::{self, Bench, launches};

/// Blocks of one process that are known at a time (`MOST_BLOCKS` in `bpf/activity.h`).
const BLOCKS: u64 = 1 << 18;

/// Make sure that a process with more blocks than are kept is told so, that its
/// allocations are counted all the same, and that another process loses nothing.
#[test]
fn many_blocks() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.session(bench::best_mode(), 1);
    let more = 1000;
    let keep = format!("keep:{}", BLOCKS + more);
    let mut client = bench.start(&bench.client, &["device:0", &keep, "stop", "churn:10"]);
    bench::read_line(&mut client, "stopped");
    let reading = session.read().unwrap();
    assert_eq!(bench::lost(&reading), [(CountTable::Blocks, more)]);
    let process = reading.processes.iter().find(|process| process.pid == client.id()).unwrap();
    let context = &process.contexts[0];
    assert_eq!((context.allocations, context.bytes), (BLOCKS + more, BLOCKS * 16));

    let (other, truth) =
        bench.run_in(&mut session, &bench.client, &["device:1", "memory:1000", "churn:20", "launch:3"]);
    bench::compare(&other, &truth, "another process");
    bench::go_on(&mut client);
    assert!(client.wait().unwrap().success());
    let process = bench::read(&mut session, client.id());
    // Its new blocks have no room either, so their frees are not seen.
    assert_eq!((process.contexts[0].allocations, process.contexts[0].frees), (BLOCKS + more + 10, 0));

    // Its blocks were cleared away when it had been read.
    let (_, truth) = bench.run_in(&mut session, &bench.client, &["device:0", &format!("keep:{BLOCKS}")]);
    assert!(truth.contains(&BLOCKS.to_string()));
    let reading = session.read().unwrap();
    assert_eq!(bench::lost(&reading), [(CountTable::Blocks, more + 10)]);
}

/// Contexts of one process that are kept apart (`MOST_CONTEXTS`), and more.
const CONTEXTS: u64 = 512 + 40;

/// Make sure that a process with more contexts than are kept is told so, and that its
/// launches are all counted.
#[test]
fn many_contexts() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.session(bench::best_mode(), 1);
    let (process, _) = bench.run_in(&mut session, &bench.client, &[&format!("pile:{CONTEXTS}")]);
    assert_eq!((launches(&process), process.contexts.len()), (CONTEXTS, 512));
    // Once when it is made, and once when its memory is allocated.
    assert_eq!(bench::lost(&session.read().unwrap()), [(CountTable::Contexts, 2 * (CONTEXTS - 512))]);
    let (other, truth) = bench.run_in(&mut session, &bench.client, &["contexts:4", "device:1", "memory:10"]);
    bench::compare(&other, &truth, "another process");
}

/// Make sure that codes of errors are counted apart, as many as there are, and that
/// launches are not lost by it.
#[test]
fn many_errors() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let (process, truth) =
        bench.run(bench::best_mode(), 1, &bench.client, &["device:0", "bad:300", "launch:20"]);
    bench::compare(&process, &truth, "errors");
    assert_eq!((launches(&process), process.errors[0].count), (20, 300));
}

/// Processes of which sums are kept at a time (the table `processes`), and more.
const PROCESSES: u64 = 16384 + 200;

/// Make sure that of each process whose calls find no room that is said, and that there is
/// room again once those that ended were read.
#[test]
fn many_processes() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.session(bench::best_mode(), 1);
    let crowd = format!("crowd:{PROCESSES}");
    let mut client = bench.start(&bench.client, &["device:0", "launch:3", &crowd]);
    // What ended meanwhile is not read.
    assert!(bench::ends(&mut session, &mut client).success());
    let reading = session.read().unwrap();
    let counted: u64 = reading.processes.iter().map(launches).sum();
    let lost: u64 = bench::lost(&reading).iter().map(|(_, count)| count).sum();
    assert!(lost >= PROCESSES - 16384 && bench::lost(&reading)[0].0 == CountTable::Processes, "{lost}");
    assert_eq!(counted + lost, PROCESSES + 3);

    let (other, truth) = bench.run_in(&mut session, &bench.client, &["device:1", "launch:5", "crowd:20"]);
    bench::compare(&other, &truth, "another process");
    assert_eq!(bench::lost(&session.read().unwrap()).iter().map(|(_, count)| count).sum::<u64>(), lost);
}

/// Make sure that launches of graphs are all counted, that of each graph which had to make
/// room for others it is said that its kernels are not known, and that those of another
/// process are.
#[test]
fn many_graphs() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.session(bench::best_mode(), 1);
    // Each is two entries of 16,384: the graph, and what can be launched.
    let (process, _) =
        bench.run_in(&mut session, &bench.client, &["device:0", "stream", "many-graphs:12000"]);
    let sum = |field: fn(&StreamSums) -> u64| process.streams.iter().map(field).sum::<u64>();
    assert_eq!((sum(|one| one.captured), sum(|one| one.graph_launches)), (12_000, 12_000));
    let reading = session.read().unwrap();
    let known = sum(|one| one.graph_kernels);
    assert!(known < 12_000);
    assert_eq!(bench::lost(&reading), [(CountTable::Graphs, 12_000 - known)]);

    let (other, truth) = bench.run_in(&mut session, &bench.client, &["device:1", "stream", "graph:20"]);
    bench::compare(&other, &truth, "another process");
    assert_eq!(bench::lost(&session.read().unwrap()), bench::lost(&reading));
}

/// Make sure that waits for events are all counted: those for events that had to make room
/// for others with the context, and that is said.
#[test]
fn many_events() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut session = bench.session(bench::best_mode(), 1);
    let (process, _) =
        bench.run_in(&mut session, &bench.client, &["device:0", "stream", "many-events:80000"]);
    let of_streams: u64 = process.streams.iter().map(|stream| stream.waits).sum();
    let of_contexts: u64 = process.contexts.iter().map(|context| context.waits).sum();
    assert!(of_contexts > 0);
    assert_eq!(of_streams + of_contexts, 80_000);
    let reading = session.read().unwrap();
    assert_eq!(bench::lost(&reading), [(CountTable::Events, of_contexts)]);

    let (other, truth) = bench.run_in(&mut session, &bench.client, &["device:1", "stream", "waits:20"]);
    bench::compare(&other, &truth, "another process");
    assert_eq!(bench::lost(&session.read().unwrap()), bench::lost(&reading));
}
