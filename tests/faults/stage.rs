//! One worker: a scene with an engine, on which one command runs after another.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::answer::Answer;
use super::command::{Kind, Line};
use super::engine::{Failed, Plan};
use super::scene::Scene;

/// A run that takes longer has hung: nothing in the scene keeps gpumap waiting.
const LIMIT: Duration = Duration::from_secs(30);

pub struct Stage {
    pub scene: Scene,
    pub plan: Plan,
    library: PathBuf,
    watchdog: Watchdog,
}

/// How a run ended.
pub struct Run {
    pub status: ExitStatus,
    pub answer: Answer,
    pub complaint: String,
    pub failed: Option<Failed>,
    pub calls: u64,
    pub took: Duration,
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
        self.plan.set(number, error);
        let (out, err) = (self.scene.room.join("out"), self.scene.room.join("err"));
        let _ = fs::remove_file(self.scene.output());
        let mut child = self
            .command(&line.arguments)
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let began = Instant::now();
        self.watchdog.guard(child.id());
        let status = child.wait().unwrap();
        self.watchdog.done();
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let saved = (line.kind == Kind::Saved).then(|| text(&self.scene.output()));
        Run {
            status,
            answer: Answer::read(line.kind, &text(&out), saved),
            complaint: text(&err),
            failed: self.plan.failed(),
            calls: self.plan.calls(),
            took: began.elapsed(),
        }
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
