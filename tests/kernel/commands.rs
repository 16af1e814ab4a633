//! The built program on a live node: real containers, hybrid v1 groups, bad
//! input, no rights. Every verdict is compared with the kernel's own.
//!
//! Needs root, a cgroup2 mount and bpf(2); without them, without a container
//! runtime or without a v1 hierarchy the tests say so and pass, unless
//! `GPUMAP_REQUIRE_ROOT=1`.

use crate::support;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::asm::Asm;
use crate::support::bpf::{self, MULTI, OVERRIDE};
use crate::support::cgroup::Cgroup;
use crate::support::container::Container;
use crate::support::node::{self, Sleeper, relative};
use crate::support::oracle::Oracle;
use crate::support::rng::Rng;
use crate::support::{host, v1};
use gpumap::model::{Device, DeviceType, Request, RequestSet};
use serde_json::{Value, json};

/// The major number of the invented node's four GPUs; their minors are 0 to 3.
const GPU: u32 = 195;

fn gpus() -> Vec<Device> {
    (0..4).map(|minor| Device { kind: DeviceType::Char, major: GPU, minor }).collect()
}

/// What `check` says about devices, as sets of allowed requests; all answers
/// have to be certain.
fn checked(cgroup: &Path, devices: &[Device]) -> Vec<RequestSet> {
    let mut args: Vec<OsString> = vec!["check".into(), "--cgroup".into(), cgroup.into()];
    for device in devices {
        args.extend(Request::ALL.map(|request| format!("{device} {}", request.letters()).into()));
    }
    let (document, code) = node::json(&args);
    let checks = document["checks"].as_array().expect("checks");
    assert_eq!(checks.len(), devices.len() * Request::ALL.len());
    assert!(
        checks.iter().all(|check| check["verdict"] == "allow" || check["verdict"] == "deny"),
        "{checks:?}"
    );
    assert_eq!(code, i32::from(checks.iter().any(|check| check["verdict"] == "deny")));
    let sets = checks.chunks(Request::ALL.len());
    let allowed = |(request, check): (Request, &Value)| (check["verdict"] == "allow").then_some(request);
    sets.map(|answers| Request::ALL.into_iter().zip(answers).filter_map(allowed).collect()).collect()
}

fn cgroup_document(path: &Path) -> Value {
    let gpu_root = node::four_gpus();
    let (document, code) =
        node::json(&[OsStr::new("cgroup"), path.as_os_str(), OsStr::new("--gpu-root"), gpu_root.as_os_str()]);
    assert_eq!((&document["complete"], &document["errors"], code), (&true.into(), &json!([]), 0));
    assert_eq!(document["cgroups"].as_array().map(Vec::len), Some(1));
    document
}

/// Field 22 of `/proc/PID/stat`.
fn start_time(pid: u64) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let rest = stat.rsplit_once(')').expect("a name").1;
    rest.split_whitespace().nth(19).expect("field 22").parse().expect("a number")
}

/// A container's cgroup: programs, GPUs and processes against the kernel.
fn container(runtime: &str) {
    let Some(_host) = host::shared() else { return };
    if !host::is_installed(runtime) || !Path::new("/bin/busybox").exists() {
        return host::skip(&format!("{runtime} or busybox is not installed"));
    }
    let rule = |minor: u32, access: &str| json!({ "allow": true, "type": "c", "major": GPU, "minor": minor, "access": access });
    let rules = json!([{ "allow": false, "access": "rwm" }, rule(1, "rw"), rule(2, "r"), rule(3, "rwm")]);
    let container = Container::start(runtime, &rules).unwrap_or_else(|log| panic!("{runtime}: {log}"));
    let path = container.cgroup();
    let document = cgroup_document(&path);
    let cgroup = &document["cgroups"][0];
    assert_eq!(cgroup["path"], relative(&path));
    let [program] = cgroup["programs"].as_array().expect("programs").as_slice() else { panic!("{cgroup}") };
    assert_eq!((&program["attached_at"], &program["flags"]), (&cgroup["path"], &json!(["multi"])));
    let details = &document["programs"][program["id"].to_string()];
    assert!(details["writer"].as_str().is_some_and(|writer| writer.contains(runtime)), "{details}");
    check_processes(cgroup, &path);

    let inside = Cgroup::open(path.clone()).expect("the container's cgroup");
    let mut oracle = Oracle::start(&inside).expect("an oracle");
    let kernel = oracle.ask(&gpus()).expect("answers");
    drop(oracle);
    assert_eq!(checked(&path, &gpus()), kernel);
    let shown = cgroup["gpus"].as_array().expect("GPUs");
    assert_eq!(shown.len(), 4);
    for (gpu, allowed) in shown.iter().zip(&kernel) {
        let verdict = if allowed.contains(Request::ReadWrite) { "allow" } else { "deny" };
        assert_eq!((gpu["verdict"].as_str(), &gpu["requests"]), (Some(verdict), &allowed.to_string().into()));
    }
    let verdicts: Vec<&str> = shown.iter().filter_map(|gpu| gpu["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["deny", "allow", "deny", "allow"]);
    drop(container);
    assert!(!path.exists() && !path.parent().expect("a parent").exists(), "{} is left", path.display());
}

fn check_processes(cgroup: &Value, path: &Path) {
    let pids = fs::read_to_string(path.join("cgroup.procs")).expect("the container runs");
    let processes = cgroup["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), pids.lines().count());
    for (process, pid) in processes.iter().zip(pids.lines()) {
        let pid: u64 = pid.parse().expect("a pid");
        assert_eq!((&process["pid"], &process["start_time"]), (&pid.into(), &start_time(pid).into()));
        assert_eq!((&process["uid"], &process["comm"]), (&0.into(), &"sleep".into()));
    }
}

/// Make sure that a runc container is described as the kernel treats it.
#[test]
fn runc_container() {
    container("runc");
}

/// Make sure that a crun container is described as the kernel treats it.
#[test]
fn crun_container() {
    container("crun");
}

/// The programs in force on a cgroup: id, where, flags.
fn in_force(path: &Path) -> Vec<(u32, String, Vec<String>)> {
    let document = cgroup_document(path);
    let programs = document["cgroups"][0]["programs"].as_array().expect("programs").clone();
    let words = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(|word| Some(word.as_str()?.into())).collect()
    };
    programs
        .iter()
        .map(|program| {
            let id = program["id"].as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id");
            (id, program["attached_at"].as_str().expect("a place").to_owned(), words(&program["flags"]))
        })
        .collect()
}

fn place(id: u32, cgroup: &Cgroup, flags: &[&str]) -> (u32, String, Vec<String>) {
    (id, relative(cgroup.path()), flags.iter().map(|flag| (*flag).to_owned()).collect())
}

/// Compares `check` with the kernel on the GPUs.
fn same_as_kernel(cgroup: &Cgroup) -> Vec<RequestSet> {
    let mut oracle = Oracle::start(cgroup).expect("an oracle");
    let kernel = oracle.ask(&gpus()).expect("answers");
    assert_eq!(checked(cgroup.path(), &gpus()), kernel);
    kernel
}

/// Make sure that every program in force is named with the level it is attached
/// to and its flags, where all levels have a say.
#[test]
fn levels_that_add_up() {
    let Some(_host) = host::shared() else { return };
    let mut levels = Cgroup::chain(3).expect("cgroups");
    let ids: Vec<u32> =
        levels.iter().zip(0..).map(|(level, minor)| node::attach_deny(level, 195, minor, MULTI)).collect();
    let mut found = in_force(levels[2].path());
    found.sort();
    let expected: Vec<_> = ids.iter().zip(&levels).map(|(id, level)| place(*id, level, &["multi"])).collect();
    assert_eq!(found, expected);
    let kernel = same_as_kernel(&levels[2]);
    assert_eq!(kernel.iter().filter(|allowed| allowed.is_empty()).count(), 3);
    assert_eq!(same_as_kernel(&levels[0]).iter().filter(|allowed| allowed.is_empty()).count(), 1);
    while levels.pop().is_some() {}
}

/// Make sure that the nearest program alone counts where levels override.
#[test]
fn levels_that_override() {
    let Some(_host) = host::shared() else { return };
    let mut levels = Cgroup::chain(3).expect("cgroups");
    let top = node::attach_deny(&levels[0], 195, 0, OVERRIDE);
    assert_eq!(in_force(levels[2].path()), [place(top, &levels[0], &["override"])]);
    same_as_kernel(&levels[2]);
    let below = node::attach_deny(&levels[1], 195, 1, 0);
    for level in &levels[1..] {
        assert_eq!(in_force(level.path()), [place(below, &levels[1], &[])]);
    }
    let kernel = same_as_kernel(&levels[2]);
    assert_eq!(
        kernel.iter().map(|allowed| allowed.is_empty()).collect::<Vec<_>>(),
        [false, true, false, false]
    );
    while levels.pop().is_some() {}
}

/// The v1 mount, or why there is none.
fn v1_mount() -> Option<(host::Host, PathBuf)> {
    let host = host::shared()?;
    let mount = v1::mount();
    if mount.is_none() {
        host::skip("no v1 devices controller is mounted");
    }
    Some((host, mount?))
}

const ALLOW_LIST: [(&str, &str); 3] =
    [("devices.deny", "a"), ("devices.allow", "c 195:1 rw"), ("devices.allow", "c 195:2 rwm")];

/// Make sure that on a hybrid host a device is denied if either the programs or
/// the v1 controller deny it.
#[test]
fn v1_allow_list() {
    let Some((_host, mount)) = v1_mount() else { return };
    let group = v1::Group::new(&mount, "list", &ALLOW_LIST);
    let scratch = Cgroup::new().expect("a cgroup");
    node::attach_deny(&scratch, 195, 2, MULTI);
    let mut oracle = Oracle::start(&scratch).expect("an oracle");
    group.adopt(oracle.pid() as u32);
    let kernel = oracle.ask(&gpus()).expect("answers");
    let allowed: Vec<bool> = kernel.iter().map(|allowed| allowed.contains(Request::ReadWrite)).collect();
    assert_eq!(allowed, [false, true, false, false], "{kernel:?}");
    assert_eq!(checked(scratch.path(), &gpus()), kernel);
    let pid = oracle.pid().to_string();
    let (document, code) = node::json(&["check", "--pid", &pid, "c 195:1", "c 195:1 m", "c 195:2"]);
    let verdicts: Vec<&str> = document["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter_map(|check| check["verdict"].as_str())
        .collect();
    assert_eq!((verdicts, code), (vec!["allow", "deny", "deny"], 1));
    for (device, verdict) in [("c 195:1 rw", "allow"), ("c 195:2 rw", "deny"), ("c 195:3 rw", "deny")] {
        let (document, code) = node::json(&["explain", "--pid", &pid, device]);
        let proof = &document["proof"];
        assert_eq!((&proof["verdict"], code), (&verdict.into(), i32::from(verdict == "deny")), "{proof}");
        assert!(proof["devices_v1"].as_str().is_some_and(|part| !part.is_empty()), "{proof}");
    }
}

/// Make sure that a v1 group that may hide denials is unknown, with the reason,
/// and that what the programs deny is denied all the same.
#[test]
fn v1_hidden_denial() {
    let Some((_host, mount)) = v1_mount() else { return };
    let group = v1::Group::new(&mount, "hidden", &[("devices.deny", "c 195:0 rwm")]);
    let list = fs::read_to_string(group.path().join("devices.list")).expect("a list");
    assert_eq!(list.trim(), "a *:* rwm", "this kernel shows its denials");
    let scratch = Cgroup::new().expect("a cgroup");
    node::attach_deny(&scratch, 195, 2, MULTI);
    let sleeper = Sleeper::in_cgroup(&scratch);
    group.adopt(sleeper.pid());
    let path = scratch.path().to_str().expect("ASCII");
    let (document, code) = node::json(&["check", "--cgroup", path, "c 195:0", "c 195:1", "c 195:2"]);
    let checks = &document["checks"];
    assert_eq!((code, &document["complete"]), (3, &false.into()));
    for number in [0, 1] {
        assert_eq!(checks[number]["verdict"], "unknown", "{checks}");
        assert!(checks[number]["why"].as_str().is_some_and(|why| why.contains("devices.list")), "{checks}");
    }
    assert_eq!(checks[2]["verdict"], "deny");
    assert_eq!(node::gpumap(&["check", "--cgroup", path, "c 195:2"]).status.code(), Some(1));
    for (device, verdict, code) in [("c 195:0 rw", "unknown", 3), ("c 195:2 rw", "deny", 1)] {
        let answer = node::json(&["explain", "--cgroup", path, device]);
        assert_eq!((&answer.0["proof"]["verdict"], answer.1), (&verdict.into(), code), "{}", answer.0);
    }
    let output = node::gpumap(&["cgroup", path]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!text(&output.stdout).contains("could not be asked"), "{}", text(&output.stdout));
}

/// Make sure that v1 alone is not taken for a missing right, nor for freedom.
#[test]
fn v1_without_programs() {
    let Some((_host, mount)) = v1_mount() else { return };
    for (name, writes) in [("alone", &ALLOW_LIST[..]), ("doubt", &[("devices.deny", "c 195:0 rwm")])] {
        let group = v1::Group::new(&mount, name, writes);
        let scratch = Cgroup::new().expect("a cgroup");
        let sleeper = Sleeper::in_cgroup(&scratch);
        group.adopt(sleeper.pid());
        let output = text(&node::gpumap(&[OsStr::new("cgroup"), scratch.path().as_os_str()]).stdout);
        assert!(output.contains("\nPrograms: none\n"), "{name}: {output}");
    }
}

/// Make sure that a process in the v1 root is ruled by the programs alone.
#[test]
fn v1_root() {
    let Some((_host, _)) = v1_mount() else { return };
    let scratch = Cgroup::new().expect("a cgroup");
    node::attach_deny(&scratch, 195, 2, MULTI);
    let _sleeper = Sleeper::in_cgroup(&scratch);
    let kernel = same_as_kernel(&scratch);
    assert_eq!(
        kernel.iter().map(|allowed| allowed.is_empty()).collect::<Vec<_>>(),
        [false, false, true, false]
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Checks that a question fails in one clean line, and as an envelope.
fn refused(args: &[&OsStr]) -> String {
    let output = node::gpumap(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    let line = clean_line(&output);
    let (document, code) = node::json(args);
    assert_eq!((code, &document["complete"]), (2, &false.into()));
    assert_eq!(document["errors"].as_array().map(Vec::len), Some(1), "{document}");
    line
}

/// The one line on standard error, without control characters.
fn clean_line(output: &Output) -> String {
    let line = text(&output.stderr);
    assert!(line.starts_with("gpumap: ") && line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
    assert!(!line.trim_end().contains(char::is_control), "{line:?}");
    line
}

/// Make sure that what is no cgroup is refused in one line that says what it is.
#[test]
fn not_a_cgroup() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a cgroup");
    let removed = scratch.child("removed").expect("a cgroup").path().to_owned();
    let file = scratch.path().join("cgroup.procs");
    let mut cases = vec![
        (removed, "no such cgroup"),
        (file, "not a directory"),
        ("/proc".into(), "not a cgroup"),
        ("/dev/null".into(), "not a directory"),
        ("../..".into(), "no such cgroup"),
    ];
    cases.extend(v1::mount().map(|mount| (mount, "cgroup v1")));
    for (path, why) in cases {
        for command in [&["cgroup"][..], &["check", "c 1:3", "--cgroup"], &["explain", "c 1:3 r", "--cgroup"]]
        {
            let args: Vec<&OsStr> = command.iter().map(OsStr::new).chain([path.as_os_str()]).collect();
            let line = refused(&args);
            assert!(line.contains(why), "{}: {line}", path.display());
        }
    }
}

/// Names that a terminal, a log or a parser could trip over.
fn hostile_names() -> Vec<Vec<u8>> {
    vec![
        b"\x1b[2J\x1b]0;title\x07".to_vec(),
        b"line\x7f\x08\rover".to_vec(),
        b"\xff\xfe\x80".to_vec(),
        "\u{202e}gnp.exe\u{9b}31m".as_bytes().to_vec(),
        b"{\"a\": '\\'}".to_vec(),
        vec![b'x'; 255],
    ]
}

/// Make sure that hostile names of cgroups neither reach the terminal nor get
/// lost, whether the cgroup is there or not.
#[test]
fn hostile_cgroup_names() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a cgroup");
    for name in hostile_names() {
        let path = scratch.path().join(OsStr::from_bytes(&name));
        refused(&[OsStr::new("cgroup"), path.as_os_str()]);
        fs::create_dir(&path).expect("a hostile cgroup");
        let cgroup = Cgroup::open(path.clone()).expect("a cgroup");
        let output = node::gpumap(&[OsStr::new("cgroup"), path.as_os_str()]);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{name:?}");
        let shown = text(&output.stdout);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{shown:?}");
        let document = cgroup_document(&path);
        let shown = &document["cgroups"][0];
        let bytes = match shown["path_hex"].as_str() {
            Some(hex) => unhex(hex),
            None => shown["path"].as_str().expect("a path").as_bytes().to_vec(),
        };
        assert!(bytes.ends_with(&name), "{shown}");
        drop(cgroup);
    }
    for name in [b"new\nline".to_vec(), vec![b'x'; 256], vec![b'x'; 5000]] {
        let path = scratch.path().join(OsString::from_vec(name));
        refused(&[OsStr::new("cgroup"), path.as_os_str()]);
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// Make sure that without rights everything is unknown and the line names the
/// capability that would help.
#[test]
fn without_rights() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a cgroup");
    let id = node::attach_deny(&scratch, 195, 2, MULTI).to_string();
    let path = scratch.path().to_str().expect("ASCII");
    for (args, code) in [
        (&["cgroup", path][..], 3),
        (&["check", "--cgroup", path, "c 195:2"], 3),
        (&["explain", "--cgroup", path, "c 195:2"], 3),
        (&["prog", &id], 2),
        (&["check", "--prog", &id, "c 195:2"], 2),
    ] {
        let output = node::as_nobody(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("CAP_"), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).lines().all(|line| line.starts_with("gpumap: ")));
        let (document, again) = node::document(&node::as_nobody(&[&["--json"], args].concat()));
        assert_eq!((again, &document["complete"]), (code, &false.into()), "{args:?}");
        assert_eq!(document["errors"][0]["code"], "no-right", "{args:?}: {document}");
        let needs = document["errors"][0]["needs"].as_str().unwrap_or_default();
        assert!(needs.contains("CAP_"), "{args:?}: {document}");
        assert!(!document.to_string().contains("\"allow\""), "{args:?}: {document}");
        if args[0] == "cgroup" {
            let cgroup = &document["cgroups"][0];
            assert_eq!(cgroup["programs"], json!([]));
            assert!(cgroup["programs_unknown"].as_str().is_some_and(|why| why.contains("CAP_")), "{cgroup}");
        }
    }
}

/// Make sure that ids that are no device program are refused for the reason.
#[test]
fn wrong_programs() {
    let Some(_host) = host::shared() else { return };
    let line = refused(&["prog", "999999999"].map(OsStr::new));
    assert!(line.contains("no BPF program with id 999999999"), "{line}");
    let (program, id) = socket_filter();
    let line = refused(&[OsStr::new("prog"), OsStr::new(&id.to_string())]);
    assert!(line.contains("not a cgroup_device program"), "{line}");
    drop(program);
    let line = refused(&["check", "--pid", "999999999", "c 1:3"].map(OsStr::new));
    assert!(line.contains("no process 999999999"), "{line}");
}

/// A loaded program of another type.
fn socket_filter() -> (std::os::fd::OwnedFd, u32) {
    const PROG_LOAD: i32 = 5;
    const SOCKET_FILTER: u32 = 1;
    let mut asm = Asm::new();
    asm.verdict(0);
    let bytes = asm.finish("filter").bytes();
    let slots = u32::try_from(bytes.len() / 8).expect("short");
    let mut attr = bpf::Attr::new()
        .u32(0, SOCKET_FILTER)
        .u32(4, slots)
        .pointer(8, bytes.as_ptr())
        .pointer(16, c"GPL".as_ptr());
    let program = bpf::bpf_fd(PROG_LOAD, &mut attr).expect("a socket filter");
    let id = support::inspect::program(&program).expect("info").id;
    (program, id)
}

/// The processes of the cgroups of a document.
fn every_process(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let cgroups = document["cgroups"].as_array_mut().into_iter().flatten();
    cgroups.flat_map(|cgroup| cgroup["processes"].as_array_mut().into_iter().flatten())
}

/// A document without what changes from one look to the next.
fn timeless(args: &[&OsStr]) -> (Value, i32) {
    let (mut document, code) = node::json(args);
    assert!(document["taken_at"].as_str().is_some_and(|time| !time.is_empty()));
    document["taken_at"] = Value::Null;
    for process in every_process(&mut document) {
        process["age_seconds"] = Value::Null;
    }
    (document, code)
}

/// Make sure that a saved observation gives the answers that the node gave.
#[test]
fn saved_is_live() {
    let Some(_host) = host::shared() else { return };
    let mut levels = Cgroup::chain(2).expect("cgroups");
    node::attach_deny(&levels[0], 195, 2, MULTI);
    node::attach_deny(&levels[1], 195, 0, MULTI);
    let sleeper = Sleeper::in_cgroup(&levels[1]);
    let path = levels[1].path().as_os_str();
    let file = std::env::temp_dir().join(format!("gpumap-live-{}.json", std::process::id()));
    let gpu_root = node::four_gpus();
    let place = [OsStr::new("--gpu-root"), gpu_root.as_os_str()];
    let from = [OsStr::new("--from"), file.as_os_str()];
    let [snapshot, output] = ["snapshot", "-o"].map(OsStr::new);
    let saved = node::gpumap(&[&place[..], &[snapshot, path, output, file.as_os_str()]].concat());
    assert_eq!((saved.status.code(), text(&saved.stderr).as_str()), (Some(0), ""));
    let pid = sleeper.pid().to_string();
    for question in [
        &["cgroup", "PATH"][..],
        &["check", "--cgroup", "PATH", "c 195:*", "c 195:0 rw", "c 195:3 rwm", "b 8:0"],
        &["check", "--pid", &pid, "c 195:0", "c 195:1"],
        &["explain", "--cgroup", "PATH", "c 195:2 rw"],
        &["explain", "--cgroup", "PATH", "c 195:3 r"],
    ] {
        let args: Vec<&OsStr> =
            question.iter().map(|word| if *word == "PATH" { path } else { OsStr::new(word) }).collect();
        let live = timeless(&[&place[..], &args].concat());
        assert_eq!(timeless(&[&from[..], &args].concat()), live, "{question:?}");
    }
    fs::remove_file(file).expect("removed");
    drop(sleeper);
    while levels.pop().is_some() {}
}

/// Runs gpumap inside a cgroup, as this user id.
/// Make sure that a path means the same cgroup of the node and of a saved observation,
/// however it is typed, and that one which leads above the root means none of either.
#[test]
fn typed_paths() {
    let Some(_host) = host::shared() else { return };
    let cgroup = Cgroup::new().expect("cgroup");
    let (point, path) = (cgroup.path().display(), relative(cgroup.path()));
    let name = cgroup.path().file_name().unwrap().to_string_lossy();
    let file = std::env::temp_dir().join(format!("gpumap-typed-{}.json", std::process::id()));
    let file = file.to_str().unwrap();
    assert!(node::gpumap(&["snapshot", &path, "-o", file]).status.success());
    let ask = |args: &[&str]| timeless(&args.iter().map(OsStr::new).collect::<Vec<_>>());
    let expected = ask(&["cgroup", &path]);
    for typed in
        [format!("{path}/../{name}"), format!("0::{path}"), format!("{point}/."), format!("{path}//")]
    {
        assert_eq!(ask(&["cgroup", &typed]), expected, "{typed}");
        assert_eq!(ask(&["--from", file, "cgroup", &typed]), expected, "{typed}");
    }
    for args in [&["cgroup", "/.."][..], &["--from", file, "cgroup", "/.."]] {
        let output = node::gpumap(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("no such cgroup"), "{output:?}");
    }
    fs::remove_file(file).expect("removed");
}

const LINES: usize = 100_000;
const SINGLE_QUESTIONS: usize = 40;

/// Make sure that a long stream of questions gets one answer each, in order,
/// and the answers that single questions get.
#[test]
fn streamed_questions() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a cgroup");
    node::attach_deny(&scratch, 195, 2, MULTI);
    node::attach_deny(&scratch, 1, 5, MULTI);
    let path = scratch.path().to_str().expect("ASCII");
    let rng = &mut Rng::new(1);
    let questions: Vec<(String, &str)> = (0..LINES).map(|_| question(rng)).collect();
    let input: String = questions.iter().map(|(line, _)| format!("{line}\n")).collect();
    let output = node::with_input(&["check", "--cgroup", path, "-"], input.as_bytes());
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), ""));
    let answers = text(&output.stdout);
    assert_eq!(answers.lines().count(), LINES);
    for (answer, (line, verdict)) in answers.lines().zip(&questions) {
        assert_eq!(answer, format!("{verdict}\t{line}"));
    }
    for (answer, (line, verdict)) in answers.lines().zip(&questions).take(SINGLE_QUESTIONS) {
        let single = node::gpumap(&["check", "--cgroup", path, line]);
        assert_eq!(text(&single.stdout), format!("{answer}\n"));
        assert_eq!(single.status.code(), Some(i32::from(*verdict != "allow")));
    }
}

/// A question and what two denied devices make of it.
fn question(rng: &mut Rng) -> (String, &'static str) {
    let kind = rng.pick(&["c", "b", "a"]);
    let (major, minor) = (rng.pick(&[195, 1, 8, 4095]), rng.below(8));
    let request = rng.pick(&["", " r", " w", " rw", " m", " f", " rwm"]);
    let is_denied = [(195, 2), (1, 5)].contains(&(major, minor));
    let verdict = match kind {
        "c" if is_denied => "deny",
        "a" if is_denied => "mixed",
        _ => "allow",
    };
    (format!("{kind} {major}:{minor}{request}"), verdict)
}

/// Make sure that the tests use the root they think they use.
#[test]
fn place_of_the_tests() {
    if let Some(mount) = host::shared() {
        // Not `cgroup /`: not every process there can be looked into everywhere.
        let (document, code) = node::json(&["check", "--cgroup", "/", "c 1:3"]);
        assert_eq!((document["host"]["cgroup_root"].as_str(), code), (mount.to_str(), 0));
    }
}
