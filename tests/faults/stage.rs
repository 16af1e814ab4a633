//! One worker: a scene with an engine, on which one command runs after another.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::answer::Answer;
use super::command::{Kind, Line};
use super::engine::{Failed, Fault, Plan};
use super::scene::Scene;

/// A run that takes longer has hung: nothing in the scene keeps gpumap waiting.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Stage {
    pub scene: Scene,
    pub plan: Plan,
    library: PathBuf,
    watchdog: Watchdog,
}

/// A command that runs.
pub struct Running {
    child: Child,
    began: Instant,
}

/// How a run ended.
pub struct Run {
    pub status: ExitStatus,
    pub answer: Answer,
    pub complaint: String,
    pub failed: Option<Failed>,
    pub calls: u64,
    pub took: Duration,
    /// Time of a processor.
    pub used: Duration,
}

impl Stage {
    /// Makes the scene for this thread.
    pub fn new(mount: &Path, room: &Path, library: &Path) -> Self {
        fs::create_dir_all(room).unwrap();
        let watchdog = Watchdog::start();
        let plan = Plan::new(room.join("plan"));
        Self { scene: Scene::new(mount, room), plan, library: library.to_owned(), watchdog }
    }

    /// Runs a command with one call that fails; none does if the number is 0.
    pub fn run(&mut self, line: &Line, number: u64, error: Errno) -> Run {
        self.fail(line, &Fault::Once(number), error)
    }

    /// Runs a command in which something fails.
    pub fn fail(&mut self, line: &Line, fault: &Fault, error: Errno) -> Run {
        let running = self.begin(line, fault, error);
        self.end(line, running)
    }

    /// Starts a command in the same way.
    pub fn begin(&mut self, line: &Line, fault: &Fault, error: Errno) -> Running {
        self.plan.set(fault, error);
        let _ = fs::remove_file(self.scene.output());
        let mut command = self.command(&line.arguments);
        command.stdout(File::create(self.scene.room.join("out")).unwrap());
        command.stderr(File::create(self.scene.room.join("err")).unwrap());
        let child = command.spawn().unwrap();
        self.watchdog.guard(child.id());
        Running { child, began: Instant::now() }
    }

    /// Waits for its end.
    pub fn end(&mut self, line: &Line, running: Running) -> Run {
        let (status, used) = wait(&running.child);
        self.watchdog.done();
        let saved = (line.kind == Kind::Saved).then(|| text(&self.scene.output()));
        Run {
            status,
            answer: Answer::read(line.kind, &self.text(), saved),
            complaint: text(&self.scene.room.join("err")),
            failed: self.plan.failed(),
            calls: self.plan.calls(),
            took: running.began.elapsed(),
            used,
        }
    }

    /// What the last command has written so far.
    pub fn text(&self) -> String {
        text(&self.scene.room.join("out"))
    }

    /// gpumap with the engine before it.
    pub fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        command.args(arguments).current_dir("/").stdin(Stdio::null());
        command.env("LD_PRELOAD", &self.library).env("GPUMAP_FAULT", self.plan.path());
        command
    }
}

impl Run {
    /// Whether the watchdog had to end it.
    pub fn has_hung(&self) -> bool {
        self.status.signal() == Some(libc::SIGKILL) && self.took >= LIMIT
    }
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself; it stays to be waited for.
    pub fn has_ended(&self) -> bool {
        // SAFETY: numbers and addresses, for which zero is a value.
        let mut facts = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the call writes to this place, which lives as long.
        let done = unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut facts, how) };
        // SAFETY: filled by the call, or zero.
        done == 0 && unsafe { facts.si_pid() } != 0
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Waits for the end of a run; with what it used, and the helpers that it waited for.
fn wait(child: &Child) -> (ExitStatus, Duration) {
    let mut status = 0;
    // SAFETY: numbers, for which zero is a value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: the call writes to these two places, which live as long.
    let pid = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!(pid, child.id() as i32, "{}", std::io::Error::last_os_error());
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime))
}

/// Ends a run that takes too long.
struct Watchdog {
    pid: Arc<AtomicI32>,
    round: Arc<AtomicU64>,
}

impl Watchdog {
    fn start() -> Self {
        let (pid, round) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicU64::new(0)));
        let (watched, seen) = (Arc::downgrade(&pid), round.clone());
        std::thread::spawn(move || {
            let mut last = (0, Instant::now());
            while let Some(pid) = watched.upgrade() {
                let round = seen.load(Ordering::SeqCst);
                if round != last.0 {
                    last = (round, Instant::now());
                } else if last.1.elapsed() > LIMIT {
                    let pid = pid.load(Ordering::SeqCst);
                    if pid > 0 {
                        // SAFETY: a system call about a child that was not waited for yet.
                        unsafe { libc::kill(pid, libc::SIGKILL) };
                    }
                }
                drop(pid);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Self { pid, round }
    }

    fn guard(&self, pid: u32) {
        self.round.fetch_add(1, Ordering::SeqCst);
        self.pid.store(pid as i32, Ordering::SeqCst);
    }

    fn done(&self) {
        self.pid.store(0, Ordering::SeqCst);
    }
}
