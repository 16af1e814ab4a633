//! Reads gpumap's answers as sets of GPUs, and asks the kernel for the same. A GPU
//! is called by the minor number of its gate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use gpumap::model::{Device, DeviceType, Request, RequestSet};
use serde_json::Value;

use crate::support::cgroup::Cgroup;
use crate::support::oracle::Oracle;
use crate::support::slurm::spec::OPENABLE;

/// GPUs by the minors of their gates.
pub type Minors = BTreeSet<u32>;

/// The elements of an array.
pub fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("no array: {value}"))
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_else(|| panic!("{value}"))
}

/// The gates in a document's inventory, by key.
pub fn gates(document: &Value) -> BTreeMap<String, Device> {
    let gate = |gpu: &Value| {
        let device =
            Device { kind: DeviceType::Char, major: number(&gpu["major"]), minor: number(&gpu["minor"]) };
        (gpu["key"].as_str().expect("a key").to_owned(), device)
    };
    array(&document["gpus"]).iter().map(gate).collect()
}

/// The minors of GPUs given by key.
pub fn minors(document: &Value, keys: &Value) -> Minors {
    let gates = gates(document);
    array(keys).iter().map(|key| gates[key.as_str().expect("a key")].minor).collect()
}

/// One cgroup of a document.
pub fn cgroup<'a>(document: &'a Value, path: &str) -> &'a Value {
    let mut all = array(&document["cgroups"]).iter();
    all.find(|cgroup| cgroup["path"] == path).unwrap_or_else(|| panic!("no {path} in {document}"))
}

/// The GPUs that a cgroup is shown to allow; every verdict has to be certain.
pub fn allowed(document: &Value, path: &str) -> Minors {
    let gpus = array(&cgroup(document, path)["gpus"]).iter();
    let allows = |gpu: &&Value| match gpu["verdict"].as_str() {
        Some("allow") => true,
        Some("deny") => false,
        other => panic!("{path}: {other:?}"),
    };
    gpus.filter(allows).map(|gpu| number(&gpu["minor"])).collect()
}

/// The requests for devices that the kernel allows in a cgroup of somebody
/// else's.
pub fn kernel_requests(path: &Path, devices: &[Device]) -> Vec<RequestSet> {
    // Not dropped: the cgroup is not ours to remove.
    let cgroup = ManuallyDrop::new(Cgroup::open(path.to_owned()).expect("a cgroup"));
    Oracle::start(&cgroup).expect("an oracle").ask(devices).expect("answers")
}

/// The GPUs of a document that the kernel lets be opened in a cgroup.
pub fn kernel(document: &Value, path: &Path) -> Minors {
    let gates: Vec<Device> = gates(document).into_values().collect();
    let answers = kernel_requests(path, &gates);
    let opened = gates.iter().zip(answers).filter(|(_, allowed)| allowed.contains(Request::ReadWrite));
    opened.map(|(gate, _)| gate.minor).collect()
}

/// The four sets of a job, of one of its steps, or of a task.
pub fn owner<'a>(document: &'a Value, job: u64, step: Option<&str>, task: Option<&str>) -> &'a Value {
    let mut all = array(&document["owners"]).iter();
    let found = all.find(|sets| {
        let owner = &sets["owner"];
        owner["kind"] == "slurm"
            && owner["job_id"] == job
            && owner["step"].as_str() == step
            && owner["task"].as_str() == task
    });
    found.unwrap_or_else(|| panic!("no job {job} step {step:?} task {task:?} in {document}"))
}

/// One of an owner's sets, which has to be known.
pub fn set(document: &Value, owner: &Value, name: &str) -> Minors {
    let set = &owner[name];
    assert_eq!(set.get("unknown").map_or(0, |unknown| array(unknown).len()), 0, "{name} of {owner}");
    minors(document, &set["gpus"])
}

/// A process of a document, wherever it is listed.
pub fn process(document: &Value, pid: u32) -> &Value {
    let cgroups = array(&document["cgroups"]).iter();
    let mut all = cgroups.flat_map(|cgroup| array(&cgroup["processes"]));
    all.find(|process| process["pid"] == pid).unwrap_or_else(|| panic!("no process {pid} in {document}"))
}

/// The openable devices that a process has open, by its descriptors.
pub fn opened(pid: u32) -> Minors {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").flatten();
    let devices = entries.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|meta| meta.rdev());
    let numbers = devices.map(|number| (libc::major(number), libc::minor(number)));
    let known = |number: &(u32, u32)| OPENABLE.iter().any(|(_, major, minor)| (*major, *minor) == *number);
    numbers.filter(known).map(|(_, minor)| minor).collect()
}
