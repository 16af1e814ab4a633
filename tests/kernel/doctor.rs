//! What `gpumap doctor` says on this node: with all rights, with none, in a user
//! namespace, with a cgroup2 mount that a later one hides, with Slurm's files below a
//! root; and what it leaves out for a bug report.
//!
//! Needs setpriv, strace and unshare.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::cgroup::Cgroup;
use crate::support::{host, node, wait};

/// The checks of a document, by id.
fn check<'a>(document: &'a Value, id: &str) -> &'a Value {
    let checks = document["doctor"].as_array().expect("checks");
    checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {document}"))
}

fn state<'a>(document: &'a Value, id: &str) -> &'a str {
    check(document, id)["state"].as_str().expect("a state")
}

/// Make sure that a call of bpf(2) that fails while programs are loaded costs no log of
/// every instruction of a program: such logs have megabytes and took minutes.
#[test]
fn refused_bpf_calls_are_cheap() {
    let Some(_host) = host::shared() else { return };
    let trace = std::env::temp_dir().join(format!("gpumap-doctor-trace-{}", std::process::id()));
    for (number, errno) in [(3, "ENOMEM"), (4, "ENOMEM"), (4, "EPERM"), (9, "EINTR"), (20, "EAGAIN")] {
        let inject = format!("inject=bpf:error={errno}:when={number}");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=bpf", "-e", &inject, "-o"]).arg(&trace);
        let gpumap = node::command(&["--json", "doctor"]);
        let output = command.arg(gpumap.get_program()).args(gpumap.get_args()).output().expect("strace");
        let (document, _) = node::document(&output);
        assert!(document["doctor"].is_array(), "{number} {errno}: {document}");
        let calls = fs::read_to_string(&trace).expect("a trace");
        assert!(calls.contains("(INJECTED)"), "{number} {errno}");
        let sizes = calls.split("log_size=").skip(1);
        let sizes = sizes.filter_map(|rest| rest.split([',', '}']).next()?.parse::<u64>().ok());
        let largest = sizes.max().unwrap_or_default();
        assert!(largest <= 128 << 10, "{number} {errno}: a log of {largest} bytes");
    }
    let _gone = fs::remove_file(&trace);
}

/// Make sure that with all rights the engines are those that the commands use, that
/// nothing is unknown, and that the exit status follows from the states.
#[test]
fn with_all_rights() {
    let Some(_host) = host::shared() else { return };
    let (document, code) = node::json(&["doctor"]);
    for id in ["rights.capabilities", "kernel.queries", "kernel.btf", "engine.cgroup-changes"] {
        assert_eq!(state(&document, id), "ok", "{}", check(&document, id));
    }
    let found = check(&document, "engine.processes")["found"].as_str().expect("text");
    assert!(found.contains("iterators"), "{found}");
    assert!(
        check(&document, "engine.environment-changes")["found"].as_str().expect("text").contains("uprobe")
    );
    let checks = document["doctor"].as_array().expect("checks");
    let is_missing = checks.iter().any(|check| check["state"] == "missing");
    assert!(checks.iter().all(|check| check["state"] != "unknown"), "{document}");
    assert_eq!(code, i32::from(is_missing), "{document}");
}

/// Make sure that without any capability each lack is told with its fix, and that
/// the answer is one document.
#[test]
fn without_rights() {
    let Some(_host) = host::shared() else { return };
    let gpumap = node::command::<&str>(&[]);
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(gpumap.get_program())
        .args(["--json", "doctor"])
        .current_dir("/")
        .output()
        .expect("setpriv");
    let (document, code) = node::document(&output);
    assert_eq!(code, 1);
    for id in ["rights.capabilities", "kernel.queries", "engine.cgroup-changes", "engine.environment-changes"]
    {
        let check = check(&document, id);
        assert_eq!(check["state"], "missing", "{check}");
        assert!(check["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{check}");
    }
    let found = check(&document, "rights.capabilities")["found"].as_str().expect("text");
    assert!(
        ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"].iter().all(|name| found.contains(name))
    );
    let nobody = node::as_nobody(&["doctor"]);
    let text = String::from_utf8(nobody.stdout).expect("text");
    assert!(nobody.status.code() == Some(1) && text.contains("rights.capabilities"), "{text}");
}

/// Make sure that a cgroup2 mount that a later mount hides is told.
#[test]
fn hidden_mount() {
    let Some(host) = host::shared() else { return };
    let gpumap = node::command::<&str>(&[]);
    let script = "mount -t tmpfs gpumap-doctor \"$1\" && shift && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(host.join(""))
        .arg(gpumap.get_program())
        .args(["--json", "doctor"])
        .current_dir("/")
        .output()
        .expect("unshare");
    let (document, code) = node::document(&output);
    assert_eq!((code, state(&document, "cgroup.hidden-mount")), (1, "missing"), "{document}");
    assert_eq!(state(&document, "cgroup.hierarchy"), "missing", "{document}");
}

/// A tree with the invented GPUs and these files of Slurm.
fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doctor-{name}"));
    let _none = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("etc/slurm")).expect("a directory");
    for part in ["proc", "sys", "dev"] {
        std::os::unix::fs::symlink(node::four_gpus().join(part), root.join(part)).expect("a link");
    }
    for (file, text) in files {
        fs::write(root.join("etc/slurm").join(file), text).expect("a file");
    }
    root
}

/// Make sure that Slurm's files below a root are judged by what they say.
#[test]
fn slurm_files() {
    let Some(_host) = host::shared() else { return };
    let judge = |root: &Path| {
        let (document, _) = node::json(&["doctor", "--gpu-root", root.to_str().expect("text")]);
        ["slurm.constrain-devices", "slurm.task-plugin", "slurm.gres"]
            .map(|id| state(&document, id).to_owned())
    };
    let good = tree(
        "good",
        &[
            ("slurm.conf", "TaskPlugin=task/affinity,task/cgroup\nGresTypes=gpu\n"),
            ("cgroup.conf", "constraindevices=no\nConstrainDevices = yes\n"),
            ("gres.conf", "Name=gpu File=/dev/nvidia[0-3]\n"),
        ],
    );
    assert_eq!(judge(&good), ["ok"; 3]);
    let bad =
        tree("bad", &[("slurm.conf", "#TaskPlugin=task/cgroup\n"), ("cgroup.conf", ""), ("gres.conf", "")]);
    assert_eq!(judge(&bad), ["missing"; 3]);
    let elsewhere = tree(
        "elsewhere",
        &[("slurm.conf", "include a\n"), ("cgroup.conf", "Include b\n"), ("gres.conf", "include /c\n")],
    );
    assert_eq!(judge(&elsewhere), ["unknown"; 3]);
}

/// A program called slurmd that was started like this, until the value goes.
struct Slurmd(Child);

impl Slurmd {
    fn start(directory: &Path, uid: u32, arguments: &[&str], variable: Option<&Path>) -> Self {
        let file = directory.join("slurmd");
        fs::write(&file, "#!/bin/sh\nwhile :; do sleep 1; done\n").expect("a script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
        let mut command = Command::new(&file);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").uid(uid);
        command.envs(variable.map(|path| ("SLURM_CONF", path)));
        Self(command.spawn().expect("a shell"))
    }
}

impl Drop for Slurmd {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Make sure that Slurm's files are those that the running slurmd was started with, by its
/// options before its environment, and that a user's program of that name names none.
#[test]
fn files_of_the_running_slurmd() {
    let Some(_host) = host::exclusive() else { return };
    let root = std::env::temp_dir().join(format!("gpumap-slurmd-{}", std::process::id()));
    for place in ["option", "variable"] {
        fs::create_dir_all(root.join(place)).expect("a directory");
        fs::write(root.join(place).join("site.conf"), "TaskPlugin=task/cgroup\n").expect("a file");
        fs::write(root.join(place).join("gres.conf"), "Name=gpu File=/dev/nvidia0\n").expect("a file");
    }
    let (option, variable) = (root.join("option/site.conf"), root.join("variable/site.conf"));
    let named = || {
        let (document, _) = node::json(&["doctor"]);
        let found = check(&document, "slurm.configuration")["found"].as_str().expect("text").to_owned();
        let saved: Value = serde_json::from_slice(&node::gpumap(&["snapshot"]).stdout).expect("JSON");
        let gres = saved["slurm"]["gres_conf"]["path"].as_str().unwrap_or_default().to_owned();
        (found, gres)
    };
    for (uid, arguments, environment, place) in [
        (0, vec!["-D", "-f", option.to_str().expect("text")], Some(variable.as_path()), Some("option")),
        (0, vec!["-D"], Some(variable.as_path()), Some("variable")),
        (65534, vec!["-f", option.to_str().expect("text")], None, None),
    ] {
        let slurmd = Slurmd::start(&root, uid, &arguments, environment);
        let name = format!("/proc/{}/comm", slurmd.0.id());
        wait::eventually("it runs", || fs::read(&name).is_ok_and(|name| name == b"slurmd\n"));
        let (found, gres) = named();
        match place {
            Some(place) => {
                let gres_conf = root.join(place).join("gres.conf").display().to_string();
                assert!(found.contains(&gres_conf) && gres == gres_conf, "{found} {gres}");
            }
            None => assert!(!found.contains("gpumap-slurmd") && !gres.contains("gpumap-slurmd"), "{found}"),
        }
    }
    fs::remove_dir_all(&root).expect("an end");
}

/// Make sure that a process called slurmd that has ended and was not waited for is no
/// slurmd, and costs an answer nothing: those that slurmd forks have its name at first.
#[test]
fn slurmd_that_has_ended() {
    let Some(_host) = host::exclusive() else { return };
    let root = std::env::temp_dir().join(format!("gpumap-ended-{}", std::process::id()));
    fs::create_dir_all(&root).expect("a directory");
    let slurmd = Slurmd::start(&root, 0, &[], None);
    let name = format!("/proc/{}/comm", slurmd.0.id());
    wait::eventually("it runs", || fs::read(&name).is_ok_and(|name| name == b"slurmd\n"));
    signal::kill(Pid::from_raw(slurmd.0.id().cast_signed()), Signal::SIGKILL).expect("a signal");
    let stat = format!("/proc/{}/stat", slurmd.0.id());
    wait::eventually("it has ended", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(" Z ")));
    let told = format!("slurmd {}", slurmd.0.id());
    for args in [&["doctor", "--json"][..], &["audit", "--json"], &["snapshot"]] {
        let text = String::from_utf8(node::gpumap(args).stdout).expect("text");
        assert!(text.starts_with('{') && !text.contains(&told) && !text.contains("slurmd: cannot"), "{text}");
    }
    fs::remove_dir_all(&root).expect("an end");
}

/// Runs `doctor` with these arguments by a gpumap at a path of its own, in a mount, host
/// name and perhaps user namespace of its own that this script prepares.
fn in_namespaces(flags: &[&str], script: &str, root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", script, "sh"]).arg(root);
    command.arg(root.join("bin/gpumap")).args(args).current_dir("/").output().expect("unshare")
}

/// Make sure that a redacted answer has nothing that somebody of the site chose: the
/// names of the node, its cluster and its users, paths of gpumap, cgroups, GPUs and
/// Slurm. With all rights, as a user, and where everything fails.
#[test]
fn redacted() {
    let Some(_host) = host::shared() else { return };
    let secret = "s3cret";
    let root = tree(
        secret,
        &[
            (
                "slurm.conf",
                "ClusterName=s3cret\nTaskPlugin=task/cgroup\nInclude /srv/s3cret/a b\nPluginDir=/srv/s3cret\n",
            ),
            ("cgroup.conf", "Include s3cret.conf\n"),
            ("gres.conf", "NodeName=s3cret Name=gpu File=/dev/nvidia[0-3]\n"),
        ],
    );
    for directory in ["bin", "cgroups", "empty"] {
        fs::create_dir(root.join(directory)).expect("a directory");
    }
    fs::copy(node::command::<&str>(&[]).get_program(), root.join("bin/gpumap")).expect("a copy");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("an id");
    let mount =
        "echo s3cret > /proc/sys/kernel/hostname; mount -t cgroup2 s3cret \"$1/cgroups\" && shift && ";
    let (as_root, as_nobody) = (
        format!("{mount} exec \"$@\""),
        format!("{mount} exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\""),
    );
    let (gpus, cgroups, empty) = (path(&root, ""), path(&root, "cgroups"), path(&root, "empty"));
    let good = ["doctor", "--redact", "--gpu-root", &gpus, "--cgroup-root", &cgroups];
    let bad = ["doctor", "--redact", "--gpu-root", &gpus, "--cgroup-root", &empty, "--proc", &empty];
    let spaces = ["-m", "-u", "--propagation", "private"];
    for script in [&as_root, &as_nobody] {
        for args in [&good[..], &bad[..]] {
            for form in ["--json", "-v"] {
                let output = in_namespaces(&spaces, script, &root, &[args, &[form]].concat());
                let said = [output.stdout.clone(), output.stderr].concat();
                let said = String::from_utf8(said).expect("text");
                let ended = output.status.code();
                assert!(
                    said.contains("cgroup.hierarchy") && matches!(ended, Some(1 | 3)),
                    "{ended:?} {said}"
                );
                assert!(!said.contains(secret) && !said.contains(boot.trim()), "{said}");
                if form == "--json" {
                    serde_json::from_slice::<Value>(&output.stdout).expect("one document");
                }
            }
        }
    }
    fs::remove_dir_all(&root).expect("an end");
}

/// Make sure that errors of usage name nothing that was typed either, whoever finds them.
#[test]
fn redacted_usage() {
    let Some(_host) = host::shared() else { return };
    for wrong in [
        &["--gpu-root", "/srv/s3cret"][..],
        &["--from", "/srv/s3cret"],
        &["--cgroup-root", "/srv/s3cret", "--from", "/dev/null"],
        &["/srv/s3cret"],
        &["--s3cret"],
        &["--timeout", "s3cret"],
        &["--color=s3cret"],
    ] {
        for form in [&[][..], &["--json"]] {
            let args = [&["doctor", "--redact"], wrong, form].concat();
            let output = node::command(&args).output().expect("gpumap");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).expect("text");
            assert_eq!(output.status.code(), Some(2), "{wrong:?}: {said}");
            assert!(!said.is_empty() && !said.contains("s3cret"), "{wrong:?}: {said}");
        }
    }
}

fn path(root: &Path, name: &str) -> String {
    root.join(name).to_str().expect("text").to_owned()
}

/// Make sure that root of a user namespace, as in a container, is told that it is not
/// root of the node, with what is missing because of that.
#[test]
fn user_namespace() {
    let Some(_host) = host::shared() else { return };
    let gpumap = node::command::<&str>(&[]);
    let output = Command::new("unshare")
        .args(["-U", "-r", "-C", "-p", "-m", "-f", "--mount-proc"])
        .arg(gpumap.get_program())
        .args(["--json", "doctor"])
        .current_dir("/")
        .output()
        .expect("unshare");
    let (document, code) = node::document(&output);
    assert_eq!(code, 1, "{document}");
    let found = check(&document, "rights.namespaces");
    assert_eq!(found["state"], "missing", "{found}");
    for name in ["user", "cgroup", "pid"] {
        assert!(found["found"].as_str().is_some_and(|text| text.contains(name)), "{found}");
    }
    for id in ["kernel.queries", "cgroup.root", "engine.environment-changes"] {
        let check = check(&document, id);
        assert!(check["state"] == "missing" && check["fix"].is_string(), "{check}");
    }
}

/// The answer of `doctor` in namespaces of these kinds, after a script that ends with the
/// command line it is given.
fn after_script(flags: &[&str], script: &str, args: &[&str]) -> Value {
    let gpumap = node::command::<&str>(&[]);
    let output = Command::new("unshare")
        .args(flags)
        .args(["sh", "-c", script, "sh"])
        .arg(gpumap.get_program())
        .args(["--json", "doctor"])
        .args(args)
        .current_dir("/")
        .output()
        .expect("unshare");
    node::document(&output).0
}

/// Make sure that a user is not told that programs are read by a way that is closed to
/// him, and that no fix sends him to another kernel.
#[test]
fn closed_ways() {
    let Some(_host) = host::shared() else { return };
    let (document, _) = node::document(&node::as_nobody(&["--json", "doctor"]));
    assert_eq!(state(&document, "engine.program-lists"), "missing", "{document}");
    for id in ["engine.processes", "engine.program-lists", "engine.environment-changes"] {
        let fix = check(&document, id)["fix"].as_str().expect("a fix");
        assert!(fix.contains("root") && !fix.contains("kernel"), "{id}: {fix}");
    }
}

/// Make sure that a file which covers the kernel's description of its types or symbols is
/// not taken for it.
#[test]
fn covered_files() {
    let Some(_host) = host::shared() else { return };
    let script = "mount --bind /dev/null /sys/kernel/btf/vmlinux && mount --bind /dev/null /proc/kallsyms && \
                  exec \"$@\"";
    let document = after_script(&["-m", "--propagation", "private"], script, &[]);
    assert_eq!(state(&document, "kernel.btf"), "missing", "{document}");
    assert_eq!(state(&document, "kernel.symbols"), "unknown", "{document}");
}

/// Make sure that in a cgroup namespace of its own gpumap knows whether it sees the whole
/// hierarchy: a mount of the node's shows all of it, one that is made there does not.
#[test]
fn cgroup_namespaces() {
    let Some(_host) = host::shared() else { return };
    let flags = ["-C", "-m", "--propagation", "private"];
    let document = after_script(&flags, "exec \"$@\"", &[]);
    assert_eq!(state(&document, "cgroup.root"), "ok", "{document}");
    assert_eq!(state(&document, "rights.namespaces"), "note", "{document}");
    let top = Cgroup::new().expect("a cgroup");
    let point = std::env::temp_dir().join(top.path().file_name().expect("a name"));
    fs::create_dir(&point).expect("a directory");
    // The namespace begins at the cgroup of whoever makes it.
    let script = format!(
        "echo $$ > '{}/cgroup.procs' && exec unshare -C sh -c 'mount -t cgroup2 gpumap-doctor {} && exec \"$@\"' sh \"$@\"",
        top.path().display(),
        point.display()
    );
    let root = point.to_str().expect("text");
    let document = after_script(&flags[1..], &script, &["--cgroup-root", root]);
    fs::remove_dir(&point).expect("a directory");
    for id in ["cgroup.root", "rights.namespaces"] {
        assert_eq!(state(&document, id), "missing", "{document}");
    }
}

/// Make sure that with hidepid nothing is said of processes that cannot be seen, and that
/// the group which it does not concern is known.
#[test]
fn hidden_processes() {
    let Some(_host) = host::shared() else { return };
    let script = |group: u32| {
        format!(
            "mount -t proc -o hidepid=2 gpumap-doctor /proc && \
             exec setpriv --reuid=65534 --regid={group} --clear-groups \"$@\""
        )
    };
    let flags = ["-m", "--propagation", "private"];
    let document = after_script(&flags, &script(65534), &[]);
    assert_eq!(state(&document, "kernel.hidepid"), "missing", "{document}");
    assert_eq!(state(&document, "software.detaching-agents"), "unknown", "{document}");
    // The group of the option `gid` is 0 where none is named.
    let document = after_script(&flags, &script(0), &[]);
    assert_eq!(state(&document, "kernel.hidepid"), "note", "{document}");
    assert_eq!(state(&document, "software.detaching-agents"), "ok", "{document}");
}

/// Make sure that a gpumap which somebody else may replace is told to root, and another
/// one that PATH finds.
#[test]
fn own_file() {
    let Some(_host) = host::shared() else { return };
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-own-file");
    let _none = fs::remove_dir_all(&root);
    let (theirs, other) = (root.join("theirs"), root.join("other"));
    let built = node::command::<&str>(&[]).get_program().to_owned();
    for directory in [&theirs, &other] {
        fs::create_dir_all(directory).expect("a directory");
    }
    fs::hard_link(&built, theirs.join("gpumap")).expect("another name");
    fs::copy(&built, other.join("gpumap")).expect("a copy");
    std::os::unix::fs::chown(&theirs, Some(65534), None).expect("a change of owner");
    let run = |directory: &Path| {
        let output = Command::new(directory.join("gpumap"))
            .args(["--json", "doctor"])
            .env("PATH", format!("{}:/usr/bin", other.display()))
            .output()
            .expect("a run");
        node::document(&output).0
    };
    let document = run(&theirs);
    let found = |id: &str| check(&document, id)["found"].as_str().expect("text");
    assert_eq!(state(&document, "gpumap.file"), "missing", "{document}");
    assert!(found("gpumap.file").ends_with("/theirs."), "{}", found("gpumap.file"));
    assert_eq!(state(&document, "gpumap.path"), "note", "{document}");
    assert!(found("gpumap.path").contains("/other/gpumap"), "{}", found("gpumap.path"));
    let checks = run(&other);
    let checks = checks["doctor"].as_array().expect("checks");
    assert!(checks.iter().all(|check| check["id"] != "gpumap.path"), "{checks:?}");
    fs::remove_dir_all(&root).expect("an end");
}
