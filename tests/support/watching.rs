//! A running `gpumap watch`, and a cgroup whose processes it follows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use gpumap::model::EventKind;
use gpumap::report::Event;

use super::host::Host;
use super::wait::{eventually, patience};

/// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
const PROG_TYPE_RAW_TRACEPOINT: u64 = 17;

/// The options of gcc for control-flow protection.
pub const PROTECTED: &str = if cfg!(target_arch = "aarch64") {
    "-mbranch-protection=standard -Wl,-z,force-bti"
} else {
    "-fcf-protection=full"
};

/// A scratch directory and a scratch cgroup, removed with the value.
pub struct Place {
    pub directory: PathBuf,
    pub cgroup: PathBuf,
    _host: Host,
}

impl Place {
    pub fn new(host: &Host) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static ONCE: Once = Once::new();
        ONCE.call_once(|| remove_stale(host));
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpumap-watch-{}-{count}", std::process::id());
        let (directory, cgroup) = (std::env::temp_dir().join(&name), host.join(&name));
        fs::create_dir(&directory).unwrap();
        fs::create_dir_all(cgroup.join("below")).unwrap();
        Self { directory, cgroup, _host: host.clone() }
    }

    /// Compiles C; `flags` begin with the compiler.
    pub fn build(&self, source: &str, output: &str, flags: &str) -> PathBuf {
        let output = self.directory.join(output);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support").join(source);
        let mut words = flags.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(["-O1", "-w", "-pthread"]).arg(source).arg("-o").arg(&output).args(words);
        let result = command.output().unwrap();
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        output
    }

    /// A process that is stopped before its first statement; a signal lets it
    /// go on.
    pub fn stopped(&self, words: &[&str]) -> Child {
        let child = self.command(words).env("STOPPED", "1").spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        eventually("the process stops", || fs::read_to_string(&stat).unwrap().contains(") T "));
        child
    }

    /// A command that will run inside, one level below the watched cgroup.
    pub fn command(&self, words: &[&str]) -> Command {
        let procs = self.cgroup.join("below/cgroup.procs");
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("PATH", "/usr/bin:/bin").env("CUDA_VISIBLE_DEVICES", "0");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: opening and writing a file with strings made before.
        unsafe { command.pre_exec(move || fs::write(&procs, "0")) };
        command
    }
}

/// Whether a probe is in what a process maps of a file: its code, or its first
/// pages, differ from what the file has. What the loader changes is neither.
pub fn is_probed(pid: u32, is_file: impl Fn(&str) -> bool) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(file) = words.get(5).filter(|file| is_file(file)) else { return false };
        let (start, end) = words[0].split_once('-').unwrap();
        let [start, end, offset] =
            [start, end, words[2]].map(|number| u64::from_str_radix(number, 16).unwrap());
        if offset > 0 && !words[1].contains('x') {
            return false;
        }
        let whole = fs::read(file).unwrap();
        let meant = &whole[usize::try_from(offset).unwrap()..];
        let mut found = vec![0; meant.len().min(usize::try_from(end - start).unwrap())];
        memory.read_exact_at(&mut found, start).unwrap();
        !meant.starts_with(&found)
    })
}

/// How often the kernel did not run programs at tracepoints that this process holds, as the
/// kernel itself counts it (Linux 5.12 and later): 7.2 leaves them out where they interrupt
/// each other, and does not say whose events these were. `process` is a pid, or `self`.
pub fn left_out(process: &str) -> u64 {
    let field = |text: &str, name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let mut counts = BTreeMap::new();
    for file in fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten() {
        // It opens and closes files meanwhile.
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        if field(&text, "prog_type:") == Some(PROG_TYPE_RAW_TRACEPOINT) {
            counts.insert(field(&text, "prog_id:"), field(&text, "recursion_misses:").unwrap_or(0));
        }
    }
    counts.values().sum()
}

/// Removes what tests left behind that were killed: empty cgroups whose name
/// has the pid of a process that is gone.
fn remove_stale(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let numbers = name.strip_prefix("gpumap-watch-").and_then(|rest| rest.split_once('-'));
        let Some(pid) = numbers.and_then(|(pid, _)| pid.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            // The kernel removes none that has processes or children.
            let _ = fs::remove_dir(entry.path().join("below"));
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
        // Whatever a test left running inside.
        let _ = fs::write(self.cgroup.join("cgroup.kill"), "1");
        for cgroup in [self.cgroup.join("below"), self.cgroup.clone()] {
            // A killed process goes when the kernel has taken the probes out of it.
            for _ in 0..3000 {
                match fs::remove_dir(&cgroup) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {}
                    _ => break,
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The command, ended with the value.
pub struct Watch {
    pub child: Child,
    events: Receiver<Event>,
}

impl Watch {
    /// Starts and waits until it watches.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(None, arguments).0
    }

    /// The same with a kind of probes, and what serves.
    pub fn start_with(mode: Option<&str>, arguments: &[&str]) -> (Self, Vec<String>) {
        Self::start_in(mode.map(|mode| ("GPUMAP_TEST_PROBES", mode)), arguments)
    }

    /// The same with a variable of the tests (docs/testing.md).
    pub fn start_in(variable: Option<(&str, &str)>, arguments: &[&str]) -> (Self, Vec<String>) {
        Self::of("watch", variable, arguments)
    }

    /// The same of a command that reports events.
    pub fn of(name: &str, variable: Option<(&str, &str)>, arguments: &[&str]) -> (Self, Vec<String>) {
        let listens = cfg!(any(debug_assertions, feature = "test-hooks"));
        assert!(variable.is_none() || listens, "a release build needs --features test-hooks for this test");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        command.envs(variable);
        command.args([name, "--json"]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, events) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let watch = Self { child, events };
        let start = watch.until(|event| event.event == EventKind::Start);
        (watch, start.into_iter().flat_map(|event| event.engines).collect())
    }

    /// Looks at events one by one up to the last, however many: as long as they
    /// come.
    pub fn each(&self, mut last: impl FnMut(Event) -> bool) {
        loop {
            match self.events.recv_timeout(2 * patience()) {
                Ok(event) => {
                    if last(event) {
                        return;
                    }
                }
                Err(error) => panic!("no further event: {error}"),
            }
        }
    }

    /// The events up to the one that is waited for.
    pub fn until(&self, mut last: impl FnMut(&Event) -> bool) -> Vec<Event> {
        let end = Instant::now() + 2 * patience();
        let mut found = Vec::new();
        loop {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(event) => {
                    let done = last(&event);
                    found.push(event);
                    if done {
                        return found;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("waited too long: {found:#?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended: {found:#?}"),
            }
        }
    }

    /// Runs a command to its end, and gives its events.
    pub fn run(&self, command: &mut Command) -> Vec<Event> {
        self.ended(command.spawn().unwrap())
    }

    /// Waits until a process ends, and gives its events.
    pub fn ended(&self, mut child: Child) -> Vec<Event> {
        let pid = child.id();
        child.wait().unwrap();
        self.until(|event| {
            event.event == EventKind::Exit && event.process.as_ref().is_some_and(|one| one.pid == pid)
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The variable that most changes are of.
pub const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// How, which variable, to which value.
pub type Change<'a> = (&'a str, &'a str, &'a str);

/// The first call of `watch.c`.
pub const ORDER: Change<'_> = ("setenv", "CUDA_DEVICE_ORDER", "PCI_BUS_ID");

/// Compares the changes among events with what must be there, and nothing is lost.
pub fn assert_changes(events: &[Event], expected: &[Change<'_>]) {
    let found = changes(events);
    let found: Vec<_> =
        found.iter().map(|(how, name, value)| (how.as_str(), name.as_str(), value.as_str())).collect();
    assert_eq!(found, expected, "{events:#?}");
    assert!(!events.iter().any(|event| event.event == EventKind::Lost), "{events:#?}");
}

/// The kinds of probes that this kernel has, with the names that they are to
/// have in the start event.
pub fn modes() -> Vec<(&'static str, &'static str)> {
    let (_, engines) = Watch::start_with(None, &["--pid", &std::process::id().to_string()]);
    let all = [("session", "uprobe.session"), ("pair", "uprobe")];
    let first = all.iter().position(|(_, engine)| engines.iter().any(|one| one == engine));
    println!("served by {engines:?}");
    all[first.unwrap()..].to_vec()
}

/// The changes among events: how, variable, new value.
pub fn changes(events: &[Event]) -> Vec<(String, String, String)> {
    let visible = events.iter().filter(|event| event.event == EventKind::Visible);
    visible
        .map(|event| {
            let new = event.new.as_ref().unwrap();
            let value = new.raw.clone().unwrap_or_else(|| new.state.to_string());
            (event.how.unwrap().to_string(), event.variable.clone().unwrap(), value)
        })
        .collect()
}
