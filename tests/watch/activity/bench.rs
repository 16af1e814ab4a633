//! The stand-in driver, its clients, and its truth.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpumap::activity::{CountingOptions, Mode, ProcessScope, Session, counted_functions};
use gpumap::model::CountTable;
use gpumap::observation::{Activity, GpuApi, ProcessActivity, Uncovered};

use crate::support::host::{self, Host};
use crate::support::kernel;
use crate::support::wait::within;
use crate::support::watching::{PROTECTED, Place, left_out};

/// This machine, unless its kernel is too old to say which function was called.
pub fn shared() -> Option<Host> {
    host::shared().filter(|_| kernel::needs(5, 15, "counting calls"))
}

/// The kinds of probes that this kernel has, the best one first.
pub fn modes() -> Vec<Mode> {
    let release = kernel::release();
    let since = |mode| match mode {
        Mode::Session => (6, 13),
        Mode::Multi => (6, 6),
        Mode::Pair => (5, 15),
    };
    Mode::ALL.into_iter().filter(|mode| release >= since(*mode)).collect()
}

/// The kind that this kernel is given first.
pub fn best_mode() -> Mode {
    modes()[0]
}

/// A driver and programs that use it, in a cgroup of their own.
pub struct Bench {
    place: Place,
    /// The library.
    pub driver: PathBuf,
    /// Plain functions, and those for threads' own default streams.
    pub client: PathBuf,
    pub own: PathBuf,
}

/// Pairs of probes, of one test at a time. The kernel takes them out one by one, waits
/// for all CPUs each time, and puts no other pair in meanwhile: on a busy machine the
/// hundreds of pairs of one test take it minutes, which other tests do not wait.
static PAIRS: Mutex<()> = Mutex::new(());

/// A running count.
pub struct Counting {
    session: Session,
    // After the session: its probes are gone then.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Deref for Counting {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Counting {
    /// Makes sure that nothing was lost until now, and that all is counted.
    pub fn nothing_missing(&mut self) {
        let reading = self.read().unwrap();
        assert_eq!(lost(&reading), []);
        assert!(reading.uncovered.is_empty(), "{:?}", reading.uncovered);
    }
}

impl DerefMut for Counting {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

/// A process that has the library mapped.
pub struct Held(Child);

impl Held {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bench {
    pub fn new(root: &Host) -> Self {
        let place = Place::new(root);
        let driver =
            place.build("c/cuda/driver.c", "libcuda.so.1", "gcc -O2 -shared -fPIC -Wl,-soname,libcuda.so.1");
        let directory = driver.parent().unwrap().to_str().unwrap();
        let flags = |more: &str| format!("gcc -O2 {more}{} -Wl,-rpath,{directory}", driver.to_str().unwrap());
        let client = place.build("c/cuda/client.c", "client", &flags(""));
        let own = place.build("c/cuda/client.c", "own", &flags("-DOWN "));
        Self { place, driver, client, own }
    }

    /// The stand-in of HIP's runtime, and its clients.
    pub fn hip(root: &Host) -> Self {
        let place = Place::new(root);
        let begin = format!("{PROTECTED} -shared -fPIC -Wl,-soname,libamdhip64.so.6");
        let driver = place.build("c/hip/driver.c", "libamdhip64.so.6", &format!("gcc -O0 {begin}"));
        let directory = driver.parent().unwrap().to_str().unwrap();
        let flags = |more: &str| format!("gcc {more}{} -Wl,-rpath,{directory}", driver.to_str().unwrap());
        let client = place.build("c/hip/client.c", "client", &flags(""));
        let own = place.build("c/hip/client.c", "own", &flags("-DOWN "));
        Self { place, driver, client, own }
    }

    /// Builds the program that opens the library itself.
    pub fn opener(&self, name: &str, flags: &str) -> PathBuf {
        self.place.build("c/cuda/opener.c", name, format!("gcc {flags} -ldl").replace("  ", " ").as_str())
    }

    /// Compiles C into the directory of the clients.
    pub fn build(&self, source: &str, output: &str, flags: &str) -> PathBuf {
        self.place.build(source, output, flags)
    }

    /// The cgroup of its processes.
    pub fn cgroup(&self) -> &Path {
        &self.place.cgroup
    }

    /// What the driver says that it was called with.
    pub fn truth_text(&self) -> String {
        fs::read_to_string(self.truth()).unwrap()
    }

    fn truth(&self) -> PathBuf {
        self.client.with_file_name("truth")
    }

    /// Starts a client.
    pub fn start(&self, client: &Path, words: &[&str]) -> Child {
        self.command(client, words).spawn().unwrap()
    }

    /// A program that is to be started. What was told before is forgotten.
    pub fn command(&self, program: &Path, words: &[&str]) -> Command {
        let _ = fs::remove_file(self.truth());
        let mut all = vec![program.to_str().unwrap()];
        all.extend(words);
        let mut command = self.place.command(&all);
        command.env("TRUTH", self.truth()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// A process that maps the library: what begins later is counted from its
    /// first call.
    pub fn hold(&self) -> Held {
        self.hold_as(&self.client)
    }

    /// The same with this client.
    pub fn hold_as(&self, client: &Path) -> Held {
        let mut child = self.start(client, &["stop"]);
        read_line(&mut child, "stopped");
        Held(child)
    }

    /// Begins to count, and waits until all that is in use is covered: on a busy machine
    /// another process may have kept the library from it at first, and that is said.
    pub fn session(&self, mode: Mode, every: u32) -> Counting {
        let mut session = self.begin(mode, every);
        uncovered_until(&mut session, <[Uncovered]>::is_empty);
        session
    }

    /// Begins to count.
    pub fn begin(&self, mode: Mode, every: u32) -> Counting {
        let alone = (mode == Mode::Pair).then(|| PAIRS.lock().unwrap_or_else(PoisonError::into_inner));
        let scope = ProcessScope { cgroups: vec![self.place.cgroup.clone()], ..ProcessScope::default() };
        let options = CountingOptions { every, mode: Some(mode), ..CountingOptions::default() };
        let session = Session::start(&scope, "/proc".as_ref(), options).unwrap();
        Counting { session, _alone: alone }
    }

    /// Begins to count launches by context alone, and waits as above.
    pub fn session_by_context(&self, mode: Mode, every: u32) -> Counting {
        let alone = (mode == Mode::Pair).then(|| PAIRS.lock().unwrap_or_else(PoisonError::into_inner));
        let scope = ProcessScope { cgroups: vec![self.place.cgroup.clone()], ..ProcessScope::default() };
        let options =
            CountingOptions { every, mode: Some(mode), streams: false, ..CountingOptions::default() };
        let session = Session::start(&scope, "/proc".as_ref(), options).unwrap();
        let mut counting = Counting { session, _alone: alone };
        uncovered_until(&mut counting, <[Uncovered]>::is_empty);
        counting
    }

    /// The same with tables that hold 2^`smaller` times less.
    pub fn small_session(&self, smaller: u8) -> Counting {
        let scope = ProcessScope { cgroups: vec![self.place.cgroup.clone()], ..ProcessScope::default() };
        let options = CountingOptions { every: 1, smaller, ..CountingOptions::default() };
        let session = Session::start(&scope, "/proc".as_ref(), options).unwrap();
        let mut counting = Counting { session, _alone: None };
        uncovered_until(&mut counting, <[Uncovered]>::is_empty);
        counting
    }

    /// Runs a client from its beginning to its end; what was counted, and the
    /// driver's truth.
    pub fn run(&self, mode: Mode, every: u32, client: &Path, words: &[&str]) -> (ProcessActivity, String) {
        let _held = self.hold();
        let mut session = self.session(mode, every);
        let (process, truth) = self.run_in(&mut session, client, words);
        session.nothing_missing();
        (process, truth)
    }

    /// The same in a session that runs already.
    pub fn run_in(&self, session: &mut Session, client: &Path, words: &[&str]) -> (ProcessActivity, String) {
        self.finish(session, self.start(client, words))
    }

    /// The same of a process that was started.
    pub fn finish(&self, session: &mut Session, child: Child) -> (ProcessActivity, String) {
        self.finish_with(session, child, &self.truth())
    }

    /// The same of one whose driver tells the truth elsewhere.
    pub fn finish_with(
        &self,
        session: &mut Session,
        mut child: Child,
        truth: &Path,
    ) -> (ProcessActivity, String) {
        assert!(ends(session, &mut child).success());
        let process = read(session, child.id());
        (process, fs::read_to_string(truth).unwrap())
    }
}

/// Waits for the end of a process while the session goes on.
pub fn ends(session: &mut Session, child: &mut Child) -> ExitStatus {
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        session.wait(Duration::from_millis(5), None).unwrap();
    }
}

/// What is not counted, once this is so, and nothing else for 20 seconds.
pub fn uncovered_until(session: &mut Session, is_so: impl Fn(&[Uncovered]) -> bool) -> Vec<Uncovered> {
    let begun = Instant::now();
    loop {
        let uncovered = session.read().unwrap().uncovered;
        if is_so(&uncovered) {
            return uncovered;
        }
        assert!(begun.elapsed() < within(20), "{uncovered:?}");
        session.wait(Duration::from_millis(20), None).unwrap();
    }
}

/// Waits until so many libraries are counted.
pub fn libraries_until(session: &mut Session, many: usize) {
    let begun = Instant::now();
    while session.read().unwrap().libraries.len() < many {
        assert!(begun.elapsed() < within(60), "no library is found");
        session.wait(Duration::from_millis(20), None).unwrap();
    }
}

/// What found no room in the tables of sums. Mappings are of all processes of the
/// machine: a busy one may have more than the kernel keeps. Nor do records of nobody count
/// that were not made because the kernel left programs out, which it says itself.
pub fn lost(reading: &Activity) -> Vec<(CountTable, u64)> {
    let lost = reading.lost.iter().filter(|lost| lost.map != CountTable::Mappings);
    let counted = lost.map(|lost| match (&lost.map, lost.uid) {
        (CountTable::Records, None) => (lost.map.clone(), lost.count.saturating_sub(left_out("self"))),
        _ => (lost.map.clone(), lost.count),
    });
    counted.filter(|(_, count)| *count != 0).collect()
}

/// All launches of a process.
pub fn launches(process: &ProcessActivity) -> u64 {
    process.streams.iter().map(|stream| stream.launches).sum()
}

/// Waits until a process says something.
pub fn read_line(child: &mut Child, expected: &str) {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), expected);
}

/// Lets it go on.
pub fn go_on(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

/// What a process that has ended did.
pub fn read(session: &mut Session, pid: u32) -> ProcessActivity {
    let mut all = read_all(session, pid);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// The same of one that executed programs: one after the other.
pub fn read_all(session: &mut Session, pid: u32) -> Vec<ProcessActivity> {
    read_each(session, &[pid])
}

/// The same of several processes: what has ended is in one reading alone.
pub fn read_each(session: &mut Session, pids: &[u32]) -> Vec<ProcessActivity> {
    let begun = Instant::now();
    let (mut ended, mut uncovered, mut libraries) = (Vec::new(), Vec::new(), Vec::new());
    while begun.elapsed() < within(20) {
        let reading = session.read().unwrap();
        uncovered.extend(reading.uncovered);
        libraries = reading.libraries;
        let is_one = |one: &ProcessActivity| pids.contains(&one.pid) && one.ended_ns.is_some();
        ended.extend(reading.processes.into_iter().filter(is_one));
        let last = |pid: &u32| ended.iter().any(|one: &ProcessActivity| one.pid == *pid && !one.executed);
        if pids.iter().all(last) {
            return ended;
        }
        session.wait(Duration::from_millis(20), None).unwrap();
    }
    panic!("processes {pids:?} do not end: {ended:?}; not covered: {uncovered:?}; {}", libraries.len());
}

/// Compares all sums of a process that has one thread with the driver's.
pub fn compare(process: &ProcessActivity, truth: &str, what: &str) {
    compare_threads(process, truth, 1, what);
}

/// The same of a process in which so many threads do the same.
pub fn compare_threads(process: &ProcessActivity, truth: &str, threads: u64, what: &str) {
    let is_sum = |line: &&str| !line.starts_with("function ") && !line.starts_with("arrays ");
    let sums = truth.lines().filter(is_sum);
    let mut real: Vec<String> = sums.map(str::to_owned).collect();
    let mut peaks = Vec::new();
    for line in &mut real {
        // The peak is compared by itself.
        if line.starts_with("context") {
            let mut words: Vec<&str> = line.split(' ').collect();
            let peak: u64 = words.remove(10).parse().unwrap();
            peaks.push((words[1].parse::<u64>().unwrap(), peak));
            *line = words.join(" ");
        }
    }
    // A stream that nothing was handed to may be in one of them alone.
    real.retain(|line| !line.starts_with("stream") || !line.ends_with(" 0 0 0 0 0 0 0 0 0 0 0 0 0 0"));
    let mut counted = counted(process);
    real.sort_unstable();
    counted.sort_unstable();
    assert_eq!(counted, real, "{what}");
    for (context, peak) in peaks {
        let found = process.contexts.iter().find(|one| one.context == context).unwrap();
        // A thread may be stopped between what the driver counts and the return that
        // gpumap sees. So any other may seem to have had its memory before, or after: the
        // peak is between that of one thread and that of all of them.
        let possible = peak / threads..=peak * threads;
        assert!(possible.contains(&found.peak_bytes), "{what}: {} instead of {peak}", found.peak_bytes);
    }
}

/// The functions that were called.
pub fn called(truth: &str) -> BTreeSet<String> {
    let words = truth.lines().filter_map(|line| line.strip_prefix("function ")?.strip_suffix(" 1"));
    words.map(str::to_owned).collect()
}

/// Makes sure that every function of an interface that gpumap counts was called.
pub fn assert_all_called(api: GpuApi, called: &BTreeSet<String>) {
    let missing: Vec<&str> = counted_functions(api).filter(|name| !called.contains(*name)).collect();
    assert_eq!(missing, [""; 0]);
}

/// The sums as the driver writes its own.
fn counted(process: &ProcessActivity) -> Vec<String> {
    let mut lines = Vec::new();
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
        if sums.iter().any(|sum| *sum != 0) {
            let sums: Vec<String> = sums.iter().map(u64::to_string).collect();
            lines.push(format!("stream {} {} {}", s.context, s.stream, sums.join(" ")));
        }
    }
    for c in &process.contexts {
        lines.push(format!(
            "context {} {} {} {} {} {} {} {} {} {}",
            c.context,
            c.device.unwrap(),
            c.allocations,
            c.frees,
            c.failed,
            c.bytes,
            c.managed_bytes,
            c.host_bytes,
            c.physical_bytes,
            c.waits
        ));
    }
    lines.extend(process.errors.iter().map(|error| format!("error {} {}", error.code, error.count)));
    lines
}
