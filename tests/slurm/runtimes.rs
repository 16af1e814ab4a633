//! Containers of real runtimes at the cgroup paths of well-known owners, with
//! processes that ask for GPUs, change their mind, and hold devices.
//!
//! Needs root, a cgroup2 mount, bpf(2), runc, crun, gcc and busybox; without them
//! the tests say so and pass, unless `GPUMAP_REQUIRE_ROOT=1`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::container::{Bundle, Container};
use crate::support::host;
use crate::support::node;
use crate::support::slurm::answer::{self, Minors};
use crate::support::slurm::compile;
use crate::support::slurm::spec::{OPENABLE, write_openable};
use serde_json::{Value, json};

/// An id as container engines make them.
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// A pod's uid.
const POD: &str = "3a5b1c7e-1111-2222-3333-444455556666";

/// A directory of the test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gpumap-runtimes-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A container in `cgroup` that may open what runtimes allow to all: full, random
/// and urandom, not kmsg. It was started with two visible, now asks for one, and
/// holds one.
fn bundle(actor: &Path, cgroup: &str) -> Bundle {
    let rules = json!([{ "allow": false, "access": "rwm" }]);
    let args = [
        "/bin/actor-static",
        "setenv",
        "CUDA_VISIBLE_DEVICES",
        "1",
        "putenv",
        "NVIDIA_VISIBLE_DEVICES=void",
        "open",
        OPENABLE[1].0,
        "refused",
        OPENABLE[3].0,
        "ready",
        "/out/ready",
    ];
    let nodes = OPENABLE.map(|(path, major, minor)| (path.to_owned(), major, minor));
    Bundle {
        cgroup: cgroup.into(),
        args: args.map(str::to_owned).into(),
        env: vec!["CUDA_VISIBLE_DEVICES=0,1".into(), "NVIDIA_VISIBLE_DEVICES=all".into()],
        programs: vec![actor.to_owned()],
        devices: nodes.into(),
        ..Bundle::sleeping(&rules)
    }
}

/// Runs such a container and hands over its document of `command`, with the
/// container's process.
fn with_container(runtime: &str, cgroup: &str, command: &str, test: impl FnOnce(&Value, &Container)) {
    let Some(_host) = host::shared() else { return };
    if let Some(program) = [runtime, "busybox", "gcc"].into_iter().find(|name| !host::is_installed(name)) {
        return host::skip(&format!("{program} is not installed"));
    }
    let scratch = Scratch::new();
    let actor = scratch.0.join("actor-static");
    compile(&["-static"], "c/actor.c", &actor);
    let inventory = scratch.0.join("gpu");
    write_openable(&inventory);
    let container =
        Container::run(runtime, &bundle(&actor, cgroup)).unwrap_or_else(|log| panic!("{runtime}: {log}"));
    container.wait_for("/out/ready");
    let mut line = node::command(&["--json", "--gpu-root"]);
    line.arg(&inventory).arg("--cgroup-root").arg(container.root());
    match command {
        "pid" => line.args(["pid", &container.pid().to_string()]),
        "cgroup" => line.args(["cgroup", cgroup]),
        other => line.arg(other),
    };
    let (document, code) = node::document(&line.output().expect("the built program"));
    assert_eq!((&document["complete"], code), (&true.into(), 0), "{document}");
    test(&document, &container);
    let (path, root) = (container.cgroup(), container.root().to_owned());
    drop(container);
    assert!(!path.exists() && !root.exists(), "{} is left", path.display());
}

/// The minors of the devices that the container may open.
fn granted() -> Minors {
    OPENABLE[..3].iter().map(|(_, _, minor)| *minor).collect()
}

/// What every container shows by `cgroup`, which is the ground for the rest.
fn verdicts(runtime: &str, cgroup: &str) {
    with_container(runtime, cgroup, "cgroup", |document, container| {
        assert_eq!(answer::allowed(document, cgroup), granted());
        assert_eq!(answer::kernel(document, &container.cgroup()), granted());
        assert_eq!(answer::opened(container.pid()), [OPENABLE[1].2].into());
    });
}

/// Make sure that runc's container at Docker's path may open what the kernel says.
#[test]
fn runc_at_docker_path() {
    verdicts("runc", &format!("/docker/{ID}"));
}

/// Make sure that crun's container in a pod may open what the kernel says.
#[test]
fn crun_in_pod() {
    verdicts("crun", &format!("/kubepods/burstable/pod{POD}/{ID}"));
}

/// Make sure that the environment and the open devices of a container's process
/// are seen from outside, through its own pid namespace.
fn process(runtime: &str, cgroup: &str) {
    with_container(runtime, cgroup, "pid", |document, container| {
        let process = answer::process(document, container.pid());
        assert_eq!(process["comm"], "actor-static");
        let visible = &process["visible"];
        let raw = |moment: &str, name: &str| {
            let variables = answer::array(&visible[moment]["variables"]).iter();
            let found = variables.filter(|variable| variable["name"] == name);
            found.map(|variable| variable["value"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(raw("at_exec", "CUDA_VISIBLE_DEVICES"), ["0,1"]);
        assert_eq!(raw("at_exec", "NVIDIA_VISIBLE_DEVICES"), ["all"]);
        assert_eq!(raw("live", "CUDA_VISIBLE_DEVICES"), ["1"]);
        assert_eq!(raw("live", "NVIDIA_VISIBLE_DEVICES"), ["void"]);
        assert_eq!(answer::minors(document, &process["held"]), [OPENABLE[1].2].into());
    });
}

/// Make sure that runc's process is described as it is.
#[test]
fn process_of_runc() {
    process("runc", &format!("/docker/{ID}"));
}

/// Make sure that crun's process is described as it is.
#[test]
fn process_of_crun() {
    process("crun", &format!("/kubepods/pod{POD}/{ID}"));
}

/// Make sure that containers are owners with sets of their own, by path.
fn owner(runtime: &str, cgroup: &str, expected: &Value) {
    with_container(runtime, cgroup, "node", |document, _| {
        let mut owners = answer::array(&document["owners"]).iter();
        let sets = owners.find(|sets| sets["cgroup"] == cgroup).unwrap_or_else(|| panic!("{document}"));
        for (field, value) in expected.as_object().expect("fields") {
            assert_eq!(&sets["owner"][field], value, "{sets}");
        }
        assert_eq!(answer::set(document, sets, "allowed"), granted());
        assert_eq!(answer::set(document, sets, "held"), [OPENABLE[1].2].into());
        assert_eq!(sets["allocated"]["gpus"], Value::Null, "nobody granted it anything: {sets}");
    });
}

/// Make sure that a container at Docker's path is Docker's.
#[test]
fn docker_is_an_owner() {
    owner("runc", &format!("/docker/{ID}"), &json!({ "kind": "docker", "container": ID }));
}

/// Make sure that a container in a pod is known with its pod.
#[test]
fn a_pod_is_around_its_container() {
    let cgroup = format!("/kubepods/burstable/pod{POD}/{ID}");
    owner("crun", &cgroup, &json!({ "kind": "pod", "pod": POD, "qos": "burstable", "container": ID }));
}
