//! What a closed kernel refuses is said, and everything else is known all the same:
//! lockdown, `kernel.unprivileged_bpf_disabled`, `kernel.yama.ptrace_scope`, hidepid.
//! `tests/machines.sh` starts kernels that are closed; on an open one nothing may be
//! missing.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::cgroup::Cgroup;
use crate::support::kernel::release;
use crate::support::node::{Sleeper, attach_deny, gpumap, json};
use crate::support::{host, node};

/// Whether a file of the kernel's settings has this text.
fn says(file: &str, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|content| content.contains(text))
}

fn is_confidential() -> bool {
    says("/sys/kernel/security/lockdown", "[confidentiality]")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Make sure that the programs in force and what they decide are known on every kernel:
/// no lockdown refuses the questions that this takes.
#[test]
fn verdicts() {
    let Some(_host) = host::shared() else { return };
    let cgroup = Cgroup::new().expect("a cgroup");
    let program = attach_deny(&cgroup, 1, 5, 0);
    let path = cgroup.path().to_str().expect("text");
    for (request, verdict, code) in [("c 1:5 r", "deny", 1), ("c 1:3 r", "allow", 0)] {
        let checked = gpumap(&["check", "--cgroup", path, request]);
        assert_eq!(checked.status.code(), Some(code), "{}", text(&checked));
        assert!(text(&checked).contains(verdict), "{}", text(&checked));
    }
    let (document, code) = json(&["cgroup", path]);
    assert_eq!((code, &document["complete"]), (0, &Value::Bool(true)), "{document}");
    assert!(document.to_string().contains(&format!("\"id\":{program}")), "{program}: {document}");
}

/// Make sure that the environment of a process is known, and of a process's memory that
/// the setting is named which forbids to read it.
#[test]
fn environments() {
    let Some(_host) = host::shared() else { return };
    let mut cat = Command::new("cat");
    cat.env("CUDA_VISIBLE_DEVICES", "61").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = cat.spawn().expect("cat");
    // It has started when it answers, on every kernel.
    child.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it reads");
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it answers");
    let (document, code) = json(&["pid", &child.id().to_string()]);
    child.kill().expect("a child");
    child.wait().expect("a child");
    let said = document.to_string();
    if says("/proc/sys/kernel/yama/ptrace_scope", "3") {
        assert_eq!((code, &document["complete"]), (3, &Value::Bool(false)), "{said}");
        assert!(said.contains("kernel.yama.ptrace_scope is 3"), "{said}");
    }
    assert!(said.contains("\"61\""), "{code} {said}");
}

/// Make sure that gpumap does not take itself for a process of the job whose hook started it,
/// of which it could not read the memory either.
#[test]
fn hooks() {
    let Some(_host) = host::shared() else { return };
    let mut hook = node::command(&["--json", "leftovers", "--job", "990071"]);
    hook.env("SLURM_JOB_ID", "990071").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let hook = hook.spawn().expect("the built program");
    let named = format!("({} gpumap)", hook.id());
    let output = hook.wait_with_output().expect("it ends");
    let said = text(&output);
    assert!(!said.contains(&named), "{said}");
    if says("/proc/sys/kernel/yama/ptrace_scope", "3") {
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
}

/// Make sure that the commands which load programs that read the kernel's memory work, or
/// say in one sentence that lockdown forbids it: also with the limit of locked memory that
/// units have.
#[test]
fn probes() {
    let Some(_host) = host::shared() else { return };
    for command in ["watch", "activity"] {
        let mut limited = Command::new("prlimit");
        limited.args(["--memlock=65536", env!("CARGO_BIN_EXE_gpumap"), command, "--for", "10ms"]);
        let ended = limited.output().expect("prlimit");
        let said = text(&ended);
        if is_confidential() {
            assert_eq!(ended.status.code(), Some(2), "{command}: {said}");
            assert!(said.contains("locked down for confidentiality"), "{command}: {said}");
        } else if command == "activity" && release() < (5, 15) {
            assert_eq!(ended.status.code(), Some(2), "{said}");
            assert!(said.contains("needs Linux 5.15"), "{said}");
        } else {
            assert!(matches!(ended.status.code(), Some(0 | 3)), "{command}: {said}");
        }
    }
}

/// Make sure that `doctor` names lockdown for each engine that it forbids, and that
/// processes and programs are listed in a slower way.
#[test]
fn engines() {
    let Some(_host) = host::shared() else { return };
    let (document, _) = json(&["doctor"]);
    let check = |id: &str| {
        let checks = document["doctor"].as_array().expect("checks");
        checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {document}")).clone()
    };
    for id in ["engine.processes", "engine.program-lists", "engine.environment-changes", "engine.call-counts"]
    {
        let found = check(id);
        let is_named = found["found"].as_str().is_some_and(|text| text.contains("locked down"));
        assert_eq!(is_named, is_confidential(), "{found}");
    }
    for id in ["engine.processes", "engine.program-lists"] {
        assert_ne!(check(id)["state"], "missing", "{document}");
    }
    if says("/proc/sys/kernel/yama/ptrace_scope", "3") {
        assert_eq!(check("kernel.ptrace")["state"], "missing", "{document}");
    }
}

/// Make sure that with hidepid a user is told that others' processes are hidden, and that
/// root sees them.
#[test]
fn hidden_processes() {
    let Some(_host) = host::shared() else { return };
    let cgroup = Cgroup::new().expect("a cgroup");
    let sleeper = Sleeper::new(&[cgroup.path()]);
    let path = cgroup.path().to_str().expect("text");
    let seen = |user: &str| {
        let script = format!("mount -t proc -o hidepid=2 gpumap-test /proc && exec {user} \"$@\"");
        let line = ["-m", "--propagation", "private", "sh", "-c", &script, "sh"];
        let command = node::command(&["--json", "cgroup", path]);
        let mut unshare = Command::new("unshare");
        unshare.args(line).arg(command.get_program()).args(command.get_args()).current_dir("/");
        node::document(&unshare.output().expect("unshare")).0
    };
    let nobody = seen("setpriv --reuid=65534 --regid=65534 --clear-groups");
    assert_eq!(nobody["complete"], false, "{nobody}");
    assert!(nobody["errors"].to_string().contains("hidepid"), "{nobody}");
    let root = seen("");
    assert!(root.to_string().contains(&format!("\"pid\":{}", sleeper.pid())), "{root}");
}
