//! One user who fills what gpumap keeps, or uses up its time, to leave none for others:
//! under one uid, and under the many that user namespaces give.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::attacker::{Attacker, build, build_with, gpumap};
use crate::support::elf;
use crate::support::host;
use crate::support::victim::{Scratch, Victim};

/// A user that nobody is on the machine.
const HOSTILE: u32 = 54_322;

/// The answer about the node, and its exit code.
fn node() -> (i32, Value) {
    let (code, text) = gpumap(&["node", "--json"]);
    (code, serde_json::from_str(&text).unwrap())
}

/// Whether the current environment of a process is known.
fn live(answer: &Value, pid: u32) -> Value {
    let cgroups = answer["cgroups"].as_array().unwrap().iter();
    let mut processes = cgroups.flat_map(|one| one["processes"].as_array().unwrap());
    let found = processes.find(|one| one["pid"] == pid).unwrap_or_else(|| panic!("no {pid}"));
    found["visible"]["live"]["state"].clone()
}

/// Make sure that the time of one user's processes is counted together, whatever uids
/// they have in a user namespace that this user made.
#[test]
fn slow_processes_under_many_uids() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let (hidden, subuid) = (build_with(&scratch, "hidden", &["-static"]), build(&scratch, "subuid"));
    let slow = |number: u32| {
        let program = scratch.path().join(format!("slow{number}"));
        elf::with_tables(&hidden, &program, b"", b"", [elf::TABLE, elf::TABLE]);
        let uid = (number + 1).to_string();
        let words = [&HOSTILE.to_string(), &uid, program.to_str().unwrap(), "idle"];
        Attacker::start(Command::new(&subuid).args(words))
    };
    let attackers: Vec<Attacker> = (0..80).map(slow).collect();
    let ordinary = Victim::start(&scratch.build("gcc -fPIC -pie"), "setenv");
    let (code, answer) = node();
    assert_eq!((code, live(&answer, ordinary.pid())), (3, "value".into()));
    let errors = answer["errors"].as_array().unwrap();
    let why = |error: &Value| error["why"].as_str().is_some_and(|why| why.contains("more than 10 seconds"));
    assert!(errors.iter().any(why), "{errors:?}");
    drop(attackers);
}

/// Processes that end with the value.
struct Crowd(Vec<Child>);

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Make sure that one user's environments, however many and long, leave room for those of
/// others.
#[test]
fn wide_environments() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let names = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];
    let names = names.into_iter().chain(["ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "SLURM_JOB_GPUS"]);
    let value = "x".repeat(16 << 10);
    let mut wide = Command::new("sleep");
    wide.arg("600").env_clear().env("PATH", "/usr/bin:/bin").envs(names.map(|name| (name, &value)));
    wide.uid(HOSTILE).gid(HOSTILE).stdin(Stdio::null()).stdout(Stdio::null());
    let crowd = Crowd((0..800).map(|_| wide.spawn().unwrap()).collect());
    let ordinary = Victim::start(&scratch.build("gcc -fPIC -pie"), "setenv");
    let (_, answer) = node();
    assert_eq!(live(&answer, ordinary.pid()), "value");
    let unknown = crowd.0.iter().filter(|one| live(&answer, one.id()) == "unknown").count();
    assert!(unknown > 0, "all environments were kept");
}
