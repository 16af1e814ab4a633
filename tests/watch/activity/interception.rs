//! The time that a library before the driver takes, with what a stand-in library is told
//! to take.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use gpumap::activity::{CountingOptions, Interception, ProcessScope, Session};
use gpumap::model::CountTable;
use gpumap::observation::{Activity, InterceptedCalls, ProcessActivity, Uncovered};

use super::bench::{self, go_on, read_line, uncovered_until};
use super::coverage::Holder;
use crate::support::host::{self, Host};
use crate::support::node;
use crate::support::wait::{is_emulated, within};
use crate::support::watching::Place;

/// A driver, a client, and libraries that stand before the driver.
struct Bench {
    place: Place,
    client: PathBuf,
    library: PathBuf,
}

impl Bench {
    fn new(root: &Host) -> Self {
        let place = Place::new(root);
        let driver =
            place.build("c/cuda/driver.c", "libcuda.so.1", "gcc -O2 -shared -fPIC -Wl,-soname,libcuda.so.1");
        let directory = driver.parent().unwrap().to_str().unwrap();
        let flags = format!("gcc -O2 {} -Wl,-rpath,{directory}", driver.to_str().unwrap());
        let client = place.build("c/cuda/client.c", "client", &flags);
        let library = place.build(
            "c/before.c",
            "libvgpu.so",
            "gcc -O2 -fno-shrink-wrap -fno-omit-frame-pointer -shared -fPIC",
        );
        Self { place, client, library }
    }

    /// A client that stops before its first launches, after them, and after all others.
    fn start(&self, nanoseconds: Option<u64>, words: &[&str]) -> Stopped {
        let mut all = vec![self.client.to_str().unwrap(), "device:0", "stream", "stop", "launch:3", "stop"];
        all.extend(words);
        all.push("stop");
        let mut command = self.place.command(&all);
        if let Some(nanoseconds) = nanoseconds {
            command.env("LD_PRELOAD", &self.library).env("BEFORE_NS", nanoseconds.to_string());
        }
        let truth = self.client.with_file_name("truth");
        let mut child =
            command.env("TRUTH", truth).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        read_line(&mut child, "stopped");
        Stopped(child)
    }
}

/// A client that waits to go on; it ends with the value.
struct Stopped(Child);

impl Stopped {
    fn go_on(&mut self) {
        go_on(&mut self.0);
        read_line(&mut self.0, "stopped");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A count of calls, and of the time before the driver.
struct Measuring {
    session: Session,
    between: Interception,
}

impl Measuring {
    /// Begins to count, and waits until all that is in use is covered.
    fn start(bench: &Bench, options: CountingOptions) -> Self {
        let scope = ProcessScope { cgroups: vec![bench.place.cgroup.clone()], ..ProcessScope::default() };
        let mut session = Session::start(&scope, "/proc".as_ref(), CountingOptions::default()).unwrap();
        uncovered_until(&mut session, <[Uncovered]>::is_empty);
        Self { session, between: Interception::new(&scope, "/proc".as_ref(), options) }
    }

    fn read(&mut self) -> Activity {
        let mut reading = self.session.read().unwrap();
        self.between.complete(&mut reading).unwrap();
        reading
    }

    /// Waits until these are measured, whose first calls are made: on a busy machine another
    /// process may have kept a library from it at first, and that is said.
    fn measure(&mut self, clients: &[Stopped]) {
        let begun = Instant::now();
        loop {
            let reading = self.read();
            let is_there = |client: &Stopped| reading.processes.iter().any(|it| it.pid == client.0.id());
            if reading.uncovered.is_empty() && clients.iter().all(is_there) {
                return;
            }
            assert!(begun.elapsed() < within(20), "{:?}", reading.uncovered);
            self.session.wait(Duration::from_millis(20), None).unwrap();
        }
    }
}

fn of<'a>(process: &'a ProcessActivity, function: &str) -> &'a InterceptedCalls {
    process.intercepted.iter().find(|calls| calls.function == function).unwrap()
}

/// Make sure that each call of a library before the driver is counted once, whether or
/// not it reaches the driver, and takes as long as the library took; and that a process
/// without such a library has none.
#[test]
fn what_a_library_takes() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let words = ["launch:400", "churn:20", "memory:1000"];
    let mut clients = [Some(50_000), Some(0), None].map(|takes| bench.start(takes, &words));
    let mut measuring = Measuring::start(&bench, CountingOptions::default());
    // The first calls that are counted make their processes known.
    clients.iter_mut().for_each(Stopped::go_on);
    measuring.measure(&clients);
    clients.iter_mut().for_each(Stopped::go_on);
    let reading = measuring.read();
    let [slow, quick, plain] = clients.each_ref().map(|client| {
        let found = reading.processes.iter().find(|process| process.pid == client.0.id());
        found.unwrap_or_else(|| panic!("{reading:?}"))
    });
    assert!(plain.intercepted.is_empty(), "{:?}", plain.intercepted);
    for process in [slow, quick] {
        let numbers = |function| (of(process, function).calls, of(process, function).reached);
        // One allocation is over the library's limit.
        assert_eq!(numbers("cuLaunchKernel"), (400, 400));
        assert_eq!(numbers("cuMemAlloc_v2"), (23, 22));
        // One of them of nothing.
        assert_eq!(numbers("cuMemFree_v2"), (23, 23));
        for calls in &process.intercepted {
            assert_eq!(calls.durations.iter().sum::<u64>(), calls.reached, "{calls:?}");
        }
    }
    let probe = reading.probe_ns.unwrap();
    assert!((1..30_000).contains(&probe), "{probe}");
    // The tenth class begins at 33 microseconds. A thread that loses the CPU takes longer.
    let longer = |process| of(process, "cuLaunchKernel").durations[9..].iter().sum::<u64>();
    assert_eq!(longer(slow), 400, "{slow:?}");
    assert!(longer(quick) < 200, "{quick:?}");
    println!(
        "probe {probe} ns; launches: {:?}, {:?}",
        of(slow, "cuLaunchKernel"),
        of(quick, "cuLaunchKernel")
    );
}

/// Make sure that `gpumap activity` says it, in its document and in a sentence.
#[test]
fn told() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    // Longer than a probe takes.
    let takes = if is_emulated() { 500_000 } else { 20_000 };
    let mut client = bench.start(Some(takes), &["launch:400"]);
    let cgroup = bench.place.cgroup.to_str().unwrap();
    let words = ["--color", "never", "activity", "--cgroup", cgroup, "--every", "1s", "--for", "60s", "-v"];
    let mut command = node::command(&words);
    let mut activity = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(activity.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |text: &str| {
        let found = lines.by_ref().take(400).find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("{text} is never said"))
    };
    until(" s: ");
    client.go_on();
    until(" client ");
    client.go_on();
    let said = until("reaches the driver");
    let _ended = (activity.kill(), activity.wait());
    assert!(said.contains("libvgpu.so takes some "), "{said}");
    assert!(said.contains(" before each cuLaunchKernel reaches the driver, "), "{said}");
}

/// Make sure that calls which go past such a library are counted beside those that go through
/// it, and that nothing is said to go past one that a process does not have.
#[test]
fn past_the_library() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let mut clients =
        [Some(0), None].map(|takes| bench.start(takes, &["launch:40", "graph:4", "together:7"]));
    let mut measuring = Measuring::start(&bench, CountingOptions::default());
    clients.iter_mut().for_each(Stopped::go_on);
    measuring.measure(&clients);
    clients.iter_mut().for_each(Stopped::go_on);
    let reading = measuring.read();
    let [process, plain] = clients
        .each_ref()
        .map(|client| reading.processes.iter().find(|process| process.pid == client.0.id()).unwrap());
    assert!(plain.intercepted.is_empty(), "{:?}", plain.intercepted);
    // The library has no such functions. The verb graph launches 8 graphs and captures a
    // ninth call, and 2 of cuLaunchCooperativeKernel.
    let graphs: u64 = process.streams.iter().map(|stream| stream.graph_launches).sum();
    let past = |function| (of(process, function).calls, of(process, function).past);
    assert_eq!((graphs, past("cuGraphLaunch")), (8, (0, 8 + 1)), "{process:?}");
    assert_eq!(past("cuLaunchCooperativeKernel"), (0, 7 + 2));
    let launches = of(process, "cuLaunchKernel");
    assert!(launches.calls >= 40 && launches.calls == launches.reached && launches.past == 0, "{launches:?}");
}

/// Make sure that arrays which go past such a library are counted to the byte, whatever their
/// format, shape and mipmaps, and those of which a channel has no size are told apart.
#[test]
fn arrays_past_the_library() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let truth = bench.client.with_file_name("truth");
    let _unless_none = fs::remove_file(&truth);
    let mut client = bench.start(Some(0), &["launch:4", "arrays:1000"]);
    let mut measuring = Measuring::start(&bench, CountingOptions::default());
    client.go_on();
    measuring.measure(std::slice::from_ref(&client));
    client.go_on();
    let reading = measuring.read();
    let process = reading.processes.iter().find(|process| process.pid == client.0.id()).unwrap();
    let arrays = process.intercepted.iter().filter(|calls| calls.function.contains("Array"));
    let [calls, bytes, unsized_ones] = arrays
        .map(|it| [it.past, it.past_bytes, it.past_unsized])
        .fold([0; 3], |all, one| std::array::from_fn(|place| all[place] + one[place]));
    go_on(&mut client.0);
    assert!(client.0.wait().unwrap().success());
    let told = fs::read_to_string(&truth).unwrap();
    let real = told.lines().find_map(|line| line.strip_prefix("arrays ")).unwrap();
    assert_eq!((calls, bytes.to_string().as_str(), unsized_ones), (8 * 3 * (1 + 6 * 4) + 3, real, 3));
}

/// Make sure that a process is told of which the library could not be probed, because a process
/// of somebody else held a lock, until it is.
#[test]
fn a_library_that_is_held() {
    let Some(root) = host::exclusive() else { return };
    let (bench, elsewhere) = (Bench::new(&root), Place::new(&root));
    let mut client = bench.start(Some(0), &["launch:4"]);
    let mut measuring = Measuring::start(&bench, CountingOptions::default());
    client.go_on();
    let holder = Holder::start(&elsewhere);
    let uncovered = measuring.read().uncovered;
    let is_told = |one: &Uncovered| {
        one.pid == Some(client.0.id())
            && one.function.is_none()
            && one.counted
            && one.why.contains("before the driver")
    };
    assert!(uncovered.iter().any(is_told), "{uncovered:?}");
    drop(holder);
    measuring.measure(std::slice::from_ref(&client));
    client.go_on();
    let reading = measuring.read();
    let process = reading.processes.iter().find(|process| process.pid == client.0.id()).unwrap();
    assert_eq!(of(process, "cuLaunchKernel").calls, 4);
}

/// Make sure that a process which ended before anybody looked for such a library is told from
/// one that has none.
#[test]
fn ended_before_it_was_looked_at() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let mut seen = bench.start(None, &["launch:4"]);
    let mut measuring = Measuring::start(&bench, CountingOptions::default());
    seen.go_on();
    measuring.measure(std::slice::from_ref(&seen));
    let mut unseen = bench.start(Some(0), &["launch:4"]);
    unseen.go_on();
    let pids = [seen.0.id(), unseen.0.id()];
    for client in [&mut seen.0, &mut unseen.0] {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    let begun = Instant::now();
    let mut processes = Vec::new();
    while processes.len() < pids.len() {
        let ended = |process: &ProcessActivity| pids.contains(&process.pid) && process.ended_ns.is_some();
        processes.extend(measuring.read().processes.into_iter().filter(ended));
        assert!(begun.elapsed() < within(20), "{processes:?}");
        measuring.session.wait(Duration::from_millis(20), None).unwrap();
    }
    let told = pids.map(|pid| {
        let its = processes.iter().find(|process| process.pid == pid).unwrap();
        (its.intercepted.len(), its.interception_unseen)
    });
    assert_eq!(told, [(0, false), (0, true)]);
}

/// Make sure that one user's calls through such a library leave another one's counts exact,
/// and that what finds no room is told with its user.
#[test]
fn one_user_floods() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    // By the sums of functions, by threads that are in a call, by processes.
    for words in ["crowd:300", "many-threads:400", "herd:140"] {
        victim_is_exact(&bench, words);
    }
}

fn victim_is_exact(bench: &Bench, flood: &str) {
    const MALLORY: u32 = 61_234;
    // One user has 128 sums and processes at most, and 256 threads.
    let options = CountingOptions { smaller: 6, ..CountingOptions::default() };
    let mut victim = bench.start(Some(0), &["launch:40", "churn:20"]);
    let mut measuring = Measuring::start(bench, options);
    victim.go_on();
    measuring.measure(std::slice::from_ref(&victim));
    let words = ["-u", &MALLORY.to_string(), "device:0", flood, "stop"].map(str::to_owned);
    let all: Vec<&str> =
        std::iter::once(bench.client.to_str().unwrap()).chain(words.iter().map(String::as_str)).collect();
    let mut command = bench.place.command(&all);
    command.env("LD_PRELOAD", &bench.library).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut flood = Stopped(command.spawn().unwrap());
    read_line(&mut flood.0, "stopped");
    victim.go_on();
    let reading = measuring.read();
    let process = reading.processes.iter().find(|process| process.pid == victim.0.id()).unwrap();
    assert_eq!((of(process, "cuLaunchKernel").calls, of(process, "cuLaunchKernel").reached), (40, 40));
    let lost: Vec<_> = reading.lost.iter().filter(|lost| lost.map == CountTable::Interceptions).collect();
    assert!(lost.len() == 1 && lost[0].uid == Some(MALLORY) && lost[0].count > 0, "{words:?} {lost:?}");
}
