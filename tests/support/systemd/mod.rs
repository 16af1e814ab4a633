//! A real systemd as PID 1 of namespaces of its own (mounts, pids, cgroups,
//! network, host name), whose cgroup root is a scratch cgroup. Its `/usr` is
//! this machine's with the gpumap under test as `/usr/bin/gpumap`.
//!
//! It ends as a Slurm cluster does: the keeper outside ends the first process
//! with the test's end of a pipe, then removes cgroups and files.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cgroup::Cgroup;
use super::{host, slurm};

/// The scripts of the nodes.
const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support");
const SYSTEMD: &str = "/lib/systemd/systemd";
/// How long a unit may take to start or stop on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running systemd; it and all its traces go with the value.
#[derive(Debug)]
pub struct Systemd {
    keeper: Child,
    work: PathBuf,
    scratch: Cgroup,
    /// Pid of systemd, outside.
    init: u32,
}

/// Runs a test with a systemd that knows these unit files.
pub fn with_systemd(units: &[PathBuf], test: impl FnOnce(&Systemd)) {
    let Some(_host) = host::shared() else { return };
    if !Path::new(SYSTEMD).exists() {
        return host::skip("systemd is not installed");
    }
    let systemd = Systemd::start(units).unwrap_or_else(|log| panic!("systemd does not start: {log}"));
    test(&systemd);
}

impl Systemd {
    /// Starts one and waits until it has reached `basic.target`; the error is
    /// what it logged.
    fn start(units: &[PathBuf]) -> Result<Self, String> {
        let scratch = Cgroup::new().expect("a scratch cgroup");
        let work = std::env::temp_dir().join(scratch.path().file_name().expect("a name"));
        for dir in ["units", "log"] {
            fs::create_dir_all(work.join(dir)).expect("a directory");
        }
        for unit in units {
            let name = unit.file_name().expect("the name of a unit");
            fs::copy(unit, work.join("units").join(name)).expect("a unit");
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gpumap"), work.join("gpumap")).expect("a link");
        let keeper = spawn_keeper(&work, scratch.path());
        let mut systemd = Self { keeper, work, scratch, init: 0 };
        std::io::Write::write_all(systemd.keeper.stdin.as_mut().expect("a pipe"), b"go\n").expect("a reader");
        let began = Instant::now();
        while !systemd.is_up() {
            if began.elapsed() > PATIENCE {
                return Err(systemd.log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(systemd)
    }

    fn is_up(&mut self) -> bool {
        let members = self.scratch.path().join("init.scope/cgroup.procs");
        let members = fs::read_to_string(members).unwrap_or_default();
        let mut pids = members.lines().filter_map(|line| line.parse().ok());
        let Some(init) = pids.find(|pid| slurm::inner_pid(*pid) == Some(1)) else { return false };
        self.init = init;
        self.command("systemctl").arg("is-system-running").output().is_ok_and(|output| {
            ["running\n", "degraded\n"].contains(&String::from_utf8_lossy(&output.stdout).as_ref())
        })
    }

    /// The directory that is `/mnt/test` inside.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// A command inside, in a cgroup that no unit has.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init.to_string(), "-m", "-C", "-p", "-u", "-n", "-i", program]);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin").env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).current_dir("/");
        command
    }

    /// Runs a command inside, which must succeed, and returns what it printed.
    pub fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().expect("nsenter");
        assert!(output.status.success(), "{program} {args:?}: {}\n{}", slurm::text(&output), self.log());
        String::from_utf8(output.stdout).expect("text")
    }

    /// A property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.run("systemctl", &["show", "--value", "-p", name, unit]).trim().to_owned()
    }

    /// What a unit has written to the journal.
    pub fn journal(&self, unit: &str) -> String {
        self.run("journalctl", &["--no-pager", "-o", "cat", "-u", unit])
    }

    /// Waits until a unit has written such a JSON line to the journal.
    pub fn wait_for(&self, unit: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let journal = self.journal(unit);
            let mut lines = journal.lines().filter_map(|line| serde_json::from_str(line).ok());
            if let Some(line) = lines.find(&is_it) {
                return line;
            }
            assert!(began.elapsed() < PATIENCE, "{unit} has not written it:\n{journal}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What systemd said while it started, and what is wrong with its units.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.work.join("log/systemd")).unwrap_or_default();
        let keeper = fs::read_to_string(self.work.join("log/keeper")).unwrap_or_default();
        let failed = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let journal = self.command("journalctl").args(["--no-pager", "-n", "40"]).output().map(failed);
        format!("{keeper}{log}{}", journal.unwrap_or_default())
    }
}

/// Ends systemd by closing the pipe, and waits for the cleaning.
impl Drop for Systemd {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn spawn_keeper(work: &Path, scratch: &Path) -> Child {
    let mut command = Command::new("sh");
    command.arg(Path::new(DIR).join("slurm/keeper.sh")).arg(work).arg(scratch);
    command.arg(Path::new(DIR).join("systemd/node.sh"));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).current_dir("/");
    command.stderr(fs::File::create(work.join("log/keeper")).expect("a log"));
    command.spawn().expect("a shell")
}
