//! A real Slurm of one node: munged, slurmctld, slurmd and what they start, in
//! namespaces of their own (mounts, pids, cgroups, network), whose
//! cgroup root is a scratch cgroup.
//!
//! The first process of the pid namespace ends with the test's end of a pipe,
//! and the kernel ends all others with it; a shell outside removes the cgroups
//! and the files then. That also holds for a test that panics or is killed.

pub mod answer;
pub mod hooks;
pub mod job;
pub mod spec;
pub mod traces;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cgroup::Cgroup;
use super::{container, host, node};
use spec::Spec;

/// The scripts, for the command line of `sh`.
const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support");
/// Joins the cgroup whose cgroup.procs is $1 and becomes the rest.
const JOIN: &str = r#"echo $$ > "$1" && shift && exec "$@""#;
/// Programs that have to be installed.
const PROGRAMS: [&str; 8] =
    ["slurmctld", "slurmd", "sbatch", "munged", "gcc", "nsenter", "busybox", "/usr/bin/python3"];
/// How long something that takes moments may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running cluster; it and all its traces go with the value.
#[derive(Debug)]
pub struct Cluster {
    keeper: Child,
    work: PathBuf,
    scratch: Cgroup,
    inventory: PathBuf,
    /// Pid of the namespace's first process, outside.
    pub init: u32,
}

/// Runs a test with a cluster and makes sure that nothing is left of it.
pub fn with_cluster(spec: &Spec, test: impl FnOnce(&Cluster)) {
    let Some(_host) = host::shared() else { return };
    if let Some(program) = PROGRAMS.into_iter().find(|name| !host::is_installed(name)) {
        return host::skip(&format!("{program} is not installed"));
    }
    let cluster = Cluster::start(spec).unwrap_or_else(|log| panic!("Slurm does not start: {log}"));
    test(&cluster);
    let traces = cluster.traces();
    drop(cluster);
    assert_eq!(traces.left(), Vec::<String>::new());
}

impl Cluster {
    /// Starts one; the error is what the daemons logged.
    pub fn start(spec: &Spec) -> Result<Self, String> {
        let scratch = Cgroup::new().expect("a scratch cgroup");
        let work = std::env::temp_dir().join(scratch.path().file_name().expect("a name"));
        for dir in ["etc", "state", "spool", "log", "run", "out", "gpu"] {
            fs::create_dir_all(work.join(dir)).expect("a directory");
        }
        // First of all, since it takes away everything else.
        let keeper = spawn_keeper(&work, scratch.path());
        write_configuration(&work, spec);
        compile(&["-shared", "-fPIC"], "slurm/shim.c", &work.join("shim.so"));
        compile(&[], "c/actor.c", &work.join("actor"));
        let mut inventory = spec.write_inventory(&work.join("gpu"));
        if spec.hooks.is_some() {
            inventory = hooks::inventory(&work, &inventory);
            hooks::write(&work, &inventory);
        }
        let mut cluster = Self { keeper, work, scratch, inventory, init: 0 };
        cluster.keeper.stdin.as_ref().expect("a pipe").write_all(b"go\n").expect("a reader");
        if !cluster.says_ready() {
            return Err(cluster.log());
        }
        cluster.init = cluster.first_process();
        Ok(cluster)
    }

    /// Waits for the node's first line.
    fn says_ready(&mut self) -> bool {
        let output = self.keeper.stdout.take().expect("a pipe");
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = send.send(line);
        });
        receive.recv_timeout(PATIENCE).is_ok_and(|line| line == "ready\n")
    }

    /// The ends of all logs.
    pub fn log(&self) -> String {
        let logs = fs::read_dir(self.work.join("log")).expect("logs").flatten();
        let texts = logs.map(|log| fs::read_to_string(log.path()).unwrap_or_default());
        let last = |text: String| text.lines().rev().take(15).map(str::to_owned).collect::<Vec<_>>();
        texts.flat_map(|text| last(text).into_iter().rev()).collect::<Vec<_>>().join("\n")
    }

    /// A directory that inside and outside have in common.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The inventory, for `--gpu-root`.
    pub fn inventory(&self) -> &Path {
        &self.inventory
    }

    /// The cgroup that is the root inside, as seen from outside.
    pub fn cgroup_root(&self) -> &Path {
        self.scratch.path()
    }

    /// The cgroup of all jobs, relative to [`Self::cgroup_root`].
    pub fn scope() -> String {
        format!("/system.slice/{}_slurmstepd.scope", host())
    }

    /// A command inside, in a cgroup that belongs to no job.
    pub fn command(&self, program: &str) -> Command {
        let init = self.init.to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &init, "-m", "-C", "-p", "-n", "-i"]);
        // In there: nsenter waits outside, where those inside cannot see it.
        command.args(["sh", "-c", JOIN, "sh", "/sys/fs/cgroup/init/cgroup.procs", program]);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("SLURM_CONF", self.work.join("etc/slurm.conf")).env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).current_dir("/");
        command
    }

    /// Runs a command inside, which must succeed, and returns what it printed.
    pub fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().expect("nsenter");
        assert!(output.status.success(), "{program} {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// gpumap inside, where there is cgroup2 alone.
    pub fn inside(&self, args: &[&str]) -> (Value, i32) {
        let mut command = self.command(env!("CARGO_BIN_EXE_gpumap"));
        command.arg("--json").args(args).arg("--gpu-root").arg(&self.inventory);
        node::document(&command.output().expect("nsenter"))
    }

    /// gpumap on the test's own node, with its pids and its v1 controllers.
    pub fn outside(&self, args: &[&str]) -> (Value, i32) {
        let mut command = node::command(args);
        command.arg("--json").arg("--cgroup-root").arg(self.scratch.path());
        command.arg("--gpu-root").arg(&self.inventory).env("SLURM_CONF", self.work.join("etc/slurm.conf"));
        if ["node", "job", "pid", "leftovers", "audit"].contains(&args[0]) {
            command.arg("--gres-conf").arg(self.work.join("etc/gres.conf"));
        }
        node::document(&command.output().expect("the built program"))
    }

    /// The pid outside of a process that has this pid inside.
    pub fn outside_pid(&self, inside: u32) -> Option<u32> {
        let entries = fs::read_dir("/proc").expect("proc").flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let space = fs::read_link(format!("/proc/{}/ns/pid", self.init)).ok()?;
        pids.find(|pid: &u32| {
            inner_pid(*pid) == Some(inside)
                && fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|other| other == space)
        })
    }

    /// Waits until a process is gone; its pid is the one inside.
    pub fn wait_for_end(&self, pid: u32) {
        let began = Instant::now();
        while self.outside_pid(pid).is_some() {
            assert!(began.elapsed() < PATIENCE, "process {pid} stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// All processes of the namespace, by their pids outside.
    pub fn processes(&self) -> Vec<u32> {
        let space = fs::read_link(format!("/proc/{}/ns/pid", self.init)).expect("a namespace");
        let entries = fs::read_dir("/proc").expect("proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let same = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|other| other == space);
        pids.filter(same).collect()
    }

    /// The process outside that is number 1 inside.
    fn first_process(&self) -> u32 {
        let members = fs::read_to_string(self.scratch.path().join("init/cgroup.procs")).expect("a cgroup");
        let mut pids = members.lines().filter_map(|line| line.parse().ok());
        pids.find(|pid| inner_pid(*pid) == Some(1)).expect("the first process of the namespace")
    }
}

/// Ends the namespace by closing the pipe, and waits for the cleaning.
impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The machine's short name, which is the node's too.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    name.trim().split('.').next().expect("a part").to_owned()
}

/// The pid that a process has in its own namespace.
pub fn inner_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// What a program said, for messages.
pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Compiles a C file of this directory.
pub fn compile(flags: &[&str], source: &str, to: &Path) {
    let mut command = Command::new("gcc");
    command.args(["-O1", "-Wall", "-Werror"]).args(flags).arg("-o").arg(to);
    let output = command.arg(Path::new(DIR).join(source)).arg("-ldl").output().expect("gcc");
    assert!(output.status.success(), "{source}: {}", text(&output));
}

#[allow(unsafe_code, reason = "a seccomp filter is installed between fork and exec")]
fn spawn_keeper(work: &Path, scratch: &Path) -> Child {
    let scripts = Path::new(DIR).join("slurm");
    let mut command = Command::new("sh");
    command.arg(scripts.join("keeper.sh")).arg(work).arg(scratch).arg(scripts.join("node.sh"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).current_dir("/");
    command.stderr(fs::File::create(work.join("log/keeper")).expect("a log"));
    // SAFETY: the closure makes one system call on constant memory.
    unsafe { command.pre_exec(container::pretend_memlock) };
    command.spawn().expect("a shell")
}

fn write_configuration(work: &Path, spec: &Spec) {
    let hooks = spec.hooks.as_deref().unwrap_or_default();
    let place = work.to_str().expect("a plain path");
    let conf = format!("{}{hooks}{}", include_str!("slurm.conf"), spec.more).replace("@WORK@", place);
    let conf = conf.replace("@NODE@", &host()).replace("@TYPES@", spec.types).replace("@GRES@", spec.gres);
    fs::write(work.join("etc/slurm.conf"), conf).expect("a file");
    let constrain = if spec.constrain { "ConstrainDevices=yes" } else { "ConstrainDevices=no" };
    let cgroup = include_str!("cgroup.conf").replace("ConstrainDevices=yes", constrain);
    fs::write(work.join("etc/cgroup.conf"), cgroup).expect("a file");
    fs::write(work.join("etc/gres.conf"), spec.conf).expect("a file");
    if !spec.containers.is_empty() {
        let containers = spec.containers.replace("@WORK@", place);
        fs::write(work.join("etc/job_container.conf"), containers).expect("a file");
    }
    if let Some(tree) = &spec.tree {
        let program = Path::new(env!("CARGO_BIN_EXE_gpumap")).parent().expect("a directory");
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let shared = [work, program, &fixtures].map(|path| format!("{}\n", path.display())).concat();
        fs::write(work.join("tree"), tree.to_str().expect("a plain path")).expect("a file");
        fs::write(work.join("shared"), shared).expect("a file");
    }
    let lines = spec.nodes.iter().map(|(path, major, minor)| format!("{path} {major} {minor}\n"));
    fs::write(work.join("nodes"), lines.collect::<String>()).expect("a file");
}
