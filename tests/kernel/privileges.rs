//! Which rights each command needs, one at a time: with exactly its set an
//! answer is complete, with one of them missing the answer says which.
//!
//! Needs setpriv.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::cgroup::Cgroup;
use crate::support::node::allow_all;
use crate::support::slurm::spec::write_openable;
use crate::support::{bpf, host, inspect, kernel, node};
use serde_json::Value;

/// A user whose processes nobody else's test has.
const USER: u32 = 61_184;
const JOB: &str = "system.slice/slurmstepd.scope/job_7201/step_0/user/task_0";

/// A command, what it needs, as in the table of gpumap(1).
type Row = (&'static [&'static str], &'static [&'static str]);

/// Before Linux 6.9 `CAP_SYS_ADMIN` does not stand for `CAP_NET_ADMIN`, which the kernel asks
/// for before it says what programs are in force.
fn rights(needed: &[&'static str]) -> Vec<&'static str> {
    let asks = needed.contains(&"sys_admin") && kernel::release() < (6, 9);
    needed.iter().copied().chain(asks.then_some("net_admin")).collect()
}

const PROCESSES: &[&str] = &["sys_admin", "sys_ptrace", "dac_read_search"];
const ROWS: [Row; 12] = [
    (&["node"], PROCESSES),
    (&["job", "7201"], PROCESSES),
    (&["pid", "@PID@"], PROCESSES),
    (&["audit"], PROCESSES),
    (&["snapshot", "--output", "@FILE@"], PROCESSES),
    (&["cgroup", "/", "-r"], &["sys_admin"]),
    (&["check", "--job", "7201", "c 1:7 rw"], &["sys_admin"]),
    (&["explain", "--job", "7201", "c 1:7 rw"], &["sys_admin"]),
    (&["diff", "/", "/system.slice"], &["sys_admin"]),
    (&["repair", "--cgroup", "/system.slice", "--allow", "c 1:7"], &["sys_admin"]),
    (&["prog", "@PROGRAM@"], &["sys_admin"]),
    (&["check", "--self", "c 1:3 r"], &[]),
];

/// A job with a device program and a process of a user that holds a GPU.
struct Scene {
    top: Cgroup,
    inventory: PathBuf,
    child: Child,
    program: u32,
    _attached: Box<dyn std::any::Any>,
}

/// Runs gpumap with these capabilities and no other.
fn with(scene: &Scene, kept: &[&str], arguments: &[&str]) -> (Value, Option<i32>, String) {
    let bounding: String = kept.iter().map(|name| format!(",+{name}")).collect();
    let gpumap = node::command::<&str>(&[]);
    let mut line = Command::new("setpriv");
    line.arg(format!("--bounding-set=-all{bounding}")).arg("--inh-caps=-all").arg(gpumap.get_program());
    line.args(["--json", "--gpu-root"]).arg(&scene.inventory).arg("--cgroup-root").arg(scene.top.path());
    let (pid, program) = (scene.child.id().to_string(), scene.program.to_string());
    let file = scene.inventory.join("saved.json").display().to_string();
    let fill =
        |word: &&str| word.replace("@PID@", &pid).replace("@PROGRAM@", &program).replace("@FILE@", &file);
    let output = line.args(arguments.iter().map(fill)).current_dir("/").output().expect("setpriv");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_str(&text).unwrap_or(Value::Null), output.status.code(), all)
}

/// Make sure that each command is complete with its rights, and names the one
/// that is missing.
#[test]
fn one_at_a_time() {
    let Some(_host) = host::shared() else { return };
    let scene = scene();
    for (command, needed) in ROWS {
        let needed = rights(needed);
        let (document, code, text) = with(&scene, &needed, command);
        let is_whole = document.is_null() || document["complete"] == true;
        assert!(is_whole && matches!(code, Some(0 | 1)), "{command:?} with {needed:?}: {code:?} {text}");
        for missing in &needed {
            let others: Vec<&str> = needed.iter().copied().filter(|name| name != missing).collect();
            let (document, _, text) = with(&scene, &others, command);
            assert_ne!(document["complete"], true, "{command:?} without {missing}: {text}");
            let name = format!("CAP_{}", missing.to_uppercase());
            assert!(text.contains(&name), "{command:?} without {missing}: {text}");
        }
    }
}

/// Make sure that ending a process takes CAP_KILL and says so.
#[test]
fn kill() {
    let Some(_host) = host::shared() else { return };
    let mut scene = scene();
    let arguments = ["leftovers", "--job", "7201", "--kill"];
    let (document, _, text) = with(&scene, &rights(PROCESSES), &arguments);
    assert!(
        document["leftovers"][0]["spared"].as_str().is_some_and(|why| why.contains("CAP_KILL")),
        "{text}"
    );
    assert!(scene.child.try_wait().expect("a child").is_none());
    let (document, _, text) = with(&scene, &[&rights(PROCESSES)[..], &["kill"]].concat(), &arguments);
    assert_eq!(document["leftovers"][0]["killed"], true, "{text}");
}

/// Make sure that a watch gives up in every thread what it does not need, and
/// keeps what its manual says.
#[test]
fn watch_gives_up_rights() {
    let Some(_host) = host::shared() else { return };
    let mut watch = node::command(&["watch", "--json", "--for", "20s"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the built program");
    let mut first = String::new();
    BufReader::new(watch.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    assert!(first.contains("start"), "{first}");
    // DAC_READ_SEARCH, NET_ADMIN, SYS_PTRACE, SYS_ADMIN, SYSLOG, PERFMON, BPF.
    let kept: u64 = [2, 12, 19, 21, 34, 38, 39].iter().map(|bit| 1u64 << bit).sum();
    let threads = fs::read_dir(format!("/proc/{}/task", watch.id())).expect("threads");
    let mut seen = 0;
    for thread in threads.flatten() {
        // Threads that only help at the start end meanwhile: before the file is
        // opened, or before it is read.
        let status = match fs::read_to_string(thread.path().join("status")) {
            Ok(status) => status,
            Err(error)
                if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) =>
            {
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        seen += 1;
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).expect("a field");
            line.trim().to_owned()
        };
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            let set = u64::from_str_radix(&field(set), 16).expect("hex");
            assert_eq!(set & !kept, 0, "{status}");
        }
        let none = "0000000000000000";
        assert_eq!((field("CapInh"), field("CapAmb")), (none.to_owned(), none.to_owned()));
        assert_eq!(field("NoNewPrivs"), "1");
        assert_eq!(field("Seccomp"), "2", "a filter");
    }
    assert!(seen > 0, "no thread");
    watch.kill().expect("a child");
    watch.wait().expect("a child");
}

fn scene() -> Scene {
    let top = Cgroup::new().expect("a scratch cgroup");
    let inventory = std::env::temp_dir().join(top.path().file_name().expect("a name"));
    write_openable(&inventory);
    let job = top.path().join(JOB);
    fs::create_dir_all(&job).expect("a cgroup");
    let loaded = allow_all();
    let program = inspect::program(&loaded).expect("info").id;
    let directory = fs::File::open(top.path().join("system.slice")).expect("a cgroup");
    bpf::attach(&directory, &loaded, 0, None).expect("attached");
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), "--clear-groups", "sleep", "600"]);
    command.stdin(fs::File::open("/dev/full").expect("a device")).stdout(Stdio::null());
    let child = command.spawn().expect("setpriv");
    fs::write(job.join("cgroup.procs"), child.id().to_string()).expect("a cgroup");
    while fs::read_to_string(format!("/proc/{}/comm", child.id())).expect("a process") != "sleep\n" {
        std::thread::yield_now();
    }
    Scene { top, inventory, child, program, _attached: Box::new(loaded) }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut path = PathBuf::from(JOB);
        while !path.as_os_str().is_empty() {
            let _ = fs::remove_dir(self.top.path().join(&path));
            path.pop();
        }
        let _ = fs::remove_dir_all(&self.inventory);
    }
}
