//! The same of what runs on: whichever call of `watch` or `export` fails, a change that
//! comes afterwards is told, or it is said that something was not seen, or it ends with
//! a sentence.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::command::{Kind, Line};
use super::engine::{self, Fault};
use super::one_shot::ERRORS;
use super::stage::{Run, Running, Stage};
use super::support::rng::Rng;
use super::support::{bpf, host, node};
use super::sweep;

/// How long a change may take to be told.
const PATIENCE: Duration = Duration::from_secs(20);
const CHANGED: &str = "other";

/// One resident command.
trait Resident {
    fn line(&self, stage: &Stage) -> Line;
    /// Whether it is at work.
    fn is_ready(&self, stage: &Stage) -> bool;
    /// Whether the program that was attached to [`CHANGED`] is told, or that something
    /// is not seen.
    fn tells(&self, stage: &Stage) -> bool;
    /// What is wrong with what it wrote, if anything is.
    fn damage(&self, stage: &Stage) -> Option<String>;
}

struct Watch;

impl Watch {
    fn events(stage: &Stage) -> Vec<Value> {
        stage.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Resident for Watch {
    fn line(&self, stage: &Stage) -> Line {
        Line::new("watch", Kind::Document, &stage.scene, &["watch", "--for", "60s"])
    }

    fn is_ready(&self, stage: &Stage) -> bool {
        Self::events(stage).iter().any(|event| event["event"] == "ready")
    }

    fn tells(&self, stage: &Stage) -> bool {
        Self::events(stage).iter().any(|event| match event["event"].as_str() {
            Some("policy") => event["cgroup"] == format!("/{CHANGED}"),
            Some("lost" | "unseen") => true,
            Some("start" | "ready") => event["not_seen"].to_string().contains("programs"),
            _ => false,
        })
    }

    fn damage(&self, stage: &Stage) -> Option<String> {
        let text = stage.text();
        let broken = text.lines().find(|line| serde_json::from_str::<Value>(line).is_err());
        broken.map(|line| format!("no event: {line}"))
    }
}

/// Metrics in a file, or over HTTP.
struct Export {
    port: Option<u16>,
}

impl Export {
    fn metrics(&self, stage: &Stage) -> String {
        match self.port {
            None => fs::read_to_string(stage.scene.output()).unwrap_or_default(),
            Some(port) => get(port).unwrap_or_default(),
        }
    }
}

fn get(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

impl Resident for Export {
    fn line(&self, stage: &Stage) -> Line {
        let (file, port) =
            (stage.scene.output().display().to_string(), self.port.map(|port| port.to_string()));
        let outlet = match &port {
            None => ["--textfile", &file],
            Some(port) => ["--listen", port],
        };
        let words = [&["export", "--every", "1s", "--cpu", "100"], &outlet[..]].concat();
        Line::new("export", Kind::Text, &stage.scene, &words)
    }

    fn is_ready(&self, stage: &Stage) -> bool {
        self.metrics(stage).contains("\ngpumap_complete ")
    }

    fn tells(&self, stage: &Stage) -> bool {
        let metrics = self.metrics(stage);
        let told = metrics.lines().any(|line| {
            line.strip_prefix("gpumap_policy_changes_total").is_some_and(|rest| !rest.ends_with(" 0"))
        });
        told || metrics.contains("\ngpumap_complete 0\n")
    }

    fn damage(&self, stage: &Stage) -> Option<String> {
        let metrics = self.metrics(stage);
        let is_cut = self.port.is_none() && !metrics.is_empty() && !metrics.ends_with('\n');
        is_cut.then(|| "the file is cut off".to_owned())
    }
}

/// Make sure that a watch goes on or says why it does not.
#[test]
fn watch() {
    sweep_of(|_| Watch, 40);
}

#[test]
fn export_to_a_file() {
    sweep_of(|_| Export { port: None }, 24);
}

#[test]
fn export_over_http() {
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    sweep_of(|_| Export { port: Some(port()) }, 24);
}

fn sweep_of<R: Resident>(make: impl Fn(&Stage) -> R + Sync, usual: usize) {
    let Some(host) = host::shared() else { return };
    let mount: &Path = &host;
    let (wanted, seed) = (sweep::wanted(usual).min(usual * 50), sweep::seed());
    let room = sweep::room("resident");
    let library = engine::build(&room);
    let found = Mutex::new(Vec::new());
    sweep::beside(|worker, workers| {
        let mut stage = Stage::new(mount, &room.join(worker.to_string()), &library);
        let resident = make(&stage);
        let line = resident.line(&stage);
        let mut rng = Rng::new(seed + worker as u64);
        let (run, why) = changed(&mut stage, &resident, &line, 0, Errno::EIO);
        assert_eq!((why, run.status.code()), (None, Some(0)), "without a fault: {}", run.complaint);
        println!("{} calls", run.calls);
        for _ in 0..wanted.div_ceil(workers) {
            let number = 1 + rng.next() % run.calls;
            let error = ERRORS[rng.below(ERRORS.len() as u32) as usize];
            let (run, why) = changed(&mut stage, &resident, &line, number, error);
            if let (Some(failed), Some(why)) = (run.failed, why) {
                found.lock().unwrap().push(format!(
                    "{}, call {number}, {} {}, {error:?}: {why}",
                    line.name, failed.call, failed.target
                ));
            }
        }
    });
    let _ = fs::remove_dir_all(&room);
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "seed {seed}:\n{}", found.join("\n"));
}

/// Runs it, changes a program once it is at work, and ends it; with what is wrong.
fn changed<R: Resident>(
    stage: &mut Stage,
    resident: &R,
    line: &Line,
    number: u64,
    error: Errno,
) -> (Run, Option<String>) {
    let mut running = stage.begin(line, &Fault::Once(number), error);
    let is_ready = waits(stage, &mut running, |stage| resident.is_ready(stage));
    let mut is_told = false;
    if is_ready {
        let other = fs::File::open(stage.scene.cgroup_root().join(CHANGED)).unwrap();
        let program = node::deny(195, 0);
        bpf::attach(&other, &program, bpf::MULTI, None).unwrap();
        is_told = waits(stage, &mut running, |stage| resident.tells(stage));
        bpf::detach(&other, program.as_fd()).unwrap();
    }
    let has_ended = running.has_ended();
    let damage = resident.damage(stage);
    if !has_ended {
        kill(Pid::from_raw(running.id() as i32), Signal::SIGTERM).unwrap();
    }
    let run = stage.end(line, running);
    let code = run.status.code();
    let has_complained = code.is_some_and(|code| code == 2 || code == 3) && !run.complaint.trim().is_empty();
    let why = if run.complaint.contains("panicked") {
        Some(format!("panics: {}", run.complaint))
    } else if code.is_none_or(|code| code > 3) {
        Some(format!("ends with {:?}: {}", run.status, run.complaint))
    } else if damage.is_some() {
        damage
    } else if has_ended && !is_told && !has_complained {
        Some(format!("ends with {:?} without a word", run.status))
    } else if !has_ended && !is_ready {
        Some("is never at work".to_owned())
    } else if !has_ended && !is_told {
        Some(format!("tells nothing: {}", run.complaint))
    } else {
        None
    };
    (run, why)
}

/// Waits for something, until the command ends by itself or for [`PATIENCE`].
fn waits(stage: &Stage, running: &mut Running, is_so: impl Fn(&Stage) -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let has_ended = running.has_ended();
        if is_so(stage) {
            return true;
        }
        if has_ended {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
