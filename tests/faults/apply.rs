//! The same of what changes device programs: whichever call of `repair --apply` or
//! `--undo` fails, the cgroup allows what it allowed or what was planned, nothing is
//! lost, and what was done can be taken back.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

use gpumap::model::{Device, DeviceType, RequestSet};
use nix::errno::Errno;
use serde_json::Value;

use super::command::{Kind, Line};
use super::engine;
use super::one_shot::ERRORS;
use super::stage::{Run, Stage};
use super::support::cgroup::Cgroup;
use super::support::oracle::Oracle;
use super::support::rng::Rng;
use super::support::{bpf, host};
use super::sweep;

/// What the old program allows, and what is missing: a device that nobody else has.
const NARROW: &str = "deny a *:* rwm\nallow c 1:3-9 rwm\nallow c 195:1 rwm";
const MISSING: &str = "c 195:9 rwm";
/// What the kernel is asked about: the missing device first.
const ASKED: [(u32, u32); 5] = [(195, 9), (195, 1), (195, 2), (1, 3), (10, 200)];

/// A cgroup that lost a device, and a process in it that asks the kernel.
struct Patient {
    oracle: Oracle,
    cgroup: Cgroup,
    old: OwnedFd,
    /// What it may open at first, and as planned.
    before: Vec<RequestSet>,
}

impl Patient {
    fn new(stage: &Stage) -> Self {
        let path = stage.scene.cgroup_root().join("patient");
        fs::create_dir(&path).unwrap();
        let cgroup = Cgroup::open(path).unwrap();
        let old = program(NARROW);
        bpf::attach(cgroup.dir(), &old, bpf::MULTI, None).unwrap();
        let mut oracle = Oracle::start(&cgroup).unwrap();
        let before = asked(&mut oracle);
        Self { cgroup, old, oracle, before }
    }

    /// Puts everything back as it was, whatever happened.
    fn reset(&self) {
        for id in bpf::effective(self.cgroup.dir()).unwrap() {
            let program = gpumap::sys::bpf::program_by_id(id).unwrap();
            bpf::detach(self.cgroup.dir(), program.as_fd()).unwrap();
        }
        bpf::attach(self.cgroup.dir(), &self.old, bpf::MULTI, None).unwrap();
        for place in ["/run/gpumap", "/sys/fs/bpf/gpumap"] {
            let _ = fs::remove_dir_all(place);
        }
    }

    /// Whether the cgroup has what was planned; `None` if it has neither that nor what
    /// it had.
    fn is_wide(&mut self) -> Option<bool> {
        let now = asked(&mut self.oracle);
        let others_stay = now[1..] == self.before[1..];
        let first = now[0];
        (others_stay && (first == self.before[0] || first == self.before[1])).then(|| first != self.before[0])
    }
}

fn asked(oracle: &mut Oracle) -> Vec<RequestSet> {
    let device = |(major, minor)| Device { kind: DeviceType::Char, major, minor };
    oracle.ask(&ASKED.map(device)).unwrap()
}

/// A program that decides as these rules.
fn program(rules: &str) -> OwnedFd {
    let decoder = &mut gpumap::policy::Decoder::new();
    let policy = decoder.policy_of_text(rules).unwrap();
    let compiled = gpumap::analyse::compiled(decoder, policy).unwrap();
    bpf::load_bytes("", &compiled.xlated.known().unwrap().0, true, true).unwrap()
}

fn line(stage: &Stage, arguments: &[&str]) -> Line {
    Line::new("repair --apply", Kind::Document, &stage.scene, arguments)
}

fn apply(stage: &Stage) -> Line {
    line(stage, &["repair", "--cgroup", "/patient", "--allow", MISSING, "--direct", "--apply"])
}

/// The journals that are there.
fn journals() -> Vec<String> {
    let entries = fs::read_dir("/run/gpumap").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.path().display().to_string()).collect();
    names.retain(|name| name.contains("/repair-") && name.ends_with(".json"));
    names
}

/// What is wrong after a run of `--apply` or `--undo`, if anything is.
fn wrong(stage: &mut Stage, patient: &mut Patient, run: &Run, is_undo: bool) -> Option<String> {
    let code = run.status.code();
    let Some(is_wide) = patient.is_wide() else { return Some("the cgroup has neither policy".to_owned()) };
    if bpf::effective(patient.cgroup.dir()).unwrap().is_empty() {
        return Some("no program is left".to_owned());
    }
    match code {
        Some(0) if is_wide == is_undo => {
            return Some(format!("exit 0, and the change is not done: {}", run.complaint));
        }
        Some(0 | 3) => {}
        Some(2) if !run.complaint.trim().is_empty() => {}
        _ => return Some(format!("ends with {:?}: {}", run.status, run.complaint)),
    }
    if run.complaint.contains("panicked") {
        return Some(run.complaint.clone());
    }
    let list = line(stage, &["repair", "--list"]);
    let told = stage.run(&list, 0, Errno::EIO);
    if told.status.code() != Some(0) {
        return Some(format!("--list afterwards: {:?} {}", told.status, told.complaint));
    }
    if !is_wide {
        return None;
    }
    // What is done has a journal, and it leads back.
    let [journal] = &journals()[..] else {
        return Some(format!("is done, and the journals are {:?}", journals()));
    };
    let text = fs::read(Path::new(journal)).unwrap();
    if let Err(error) = serde_json::from_slice::<Value>(&text) {
        return Some(format!("the journal is damaged: {error}"));
    }
    let undo = line(stage, &["repair", "--undo", journal]);
    let undone = stage.run(&undo, 0, Errno::EIO);
    if undone.status.code() != Some(0) || patient.is_wide() != Some(false) {
        return Some(format!("cannot be undone: {:?} {}", undone.status, undone.complaint));
    }
    None
}

/// Make sure that a change that is interrupted anywhere is done or not done.
#[test]
fn a_change_is_done_or_not() {
    sweep_of(false);
}

/// Make sure that the same holds when it is taken back.
#[test]
fn an_undo_is_done_or_not() {
    sweep_of(true);
}

fn sweep_of(is_undo: bool) {
    let Some(host) = host::shared() else { return };
    let mount: &Path = &host;
    let wanted = sweep::wanted(160);
    let seed = sweep::seed();
    let room = sweep::room("apply");
    let library = engine::build(&room);
    let found = Mutex::new(Vec::new());
    sweep::beside(|worker, workers| {
        let mut stage = Stage::new(mount, &room.join(worker.to_string()), &library);
        let mut patient = Patient::new(&stage);
        let apply = apply(&stage);
        let mut rng = Rng::new(seed + worker as u64);
        // A run without a fault says how many calls there are.
        let prepared = |stage: &mut Stage, patient: &Patient| {
            patient.reset();
            if !is_undo {
                return apply.clone();
            }
            let done = stage.run(&apply, 0, Errno::EIO);
            assert_eq!(done.status.code(), Some(0), "{}", done.complaint);
            let journal = journals().remove(0);
            line(stage, &["repair", "--undo", &journal])
        };
        let first = prepared(&mut stage, &patient);
        let run = stage.run(&first, 0, Errno::EIO);
        assert_eq!(run.status.code(), Some(0), "{}", run.complaint);
        assert_eq!(wrong(&mut stage, &mut patient, &run, is_undo), None);
        println!("{} calls", run.calls);
        for _ in 0..wanted.div_ceil(workers) {
            let number = 1 + rng.next() % run.calls;
            let error = ERRORS[rng.below(ERRORS.len() as u32) as usize];
            let line = prepared(&mut stage, &patient);
            let run = stage.run(&line, number, error);
            let Some(failed) = run.failed.clone() else { continue };
            // Then the cgroup is gone, as far as the kernel says, and nothing is to be done.
            if is_undo && failed.may_say_absent(error) && failed.target.ends_with("/patient") {
                continue;
            }
            if let Some(why) = wrong(&mut stage, &mut patient, &run, is_undo) {
                found
                    .lock()
                    .unwrap()
                    .push(format!("call {number}, {} {}, {error:?}: {why}", failed.call, failed.target));
            }
        }
        patient.reset();
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "seed {seed}: {}", found.join("\n"));
}
