//! A container of a real runtime, in a mount and cgroup namespace of its own so
//! that the runtime sees nothing but cgroup2.

#![allow(unsafe_code, reason = "a seccomp filter is installed between fork and exec")]

mod bundle;
mod runtime;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::cgroup::Cgroup;
pub use bundle::Bundle;

/// $1 is the runtime, $2 the bundle. Says so when the container runs; deletes
/// it when its standard input ends.
const INSIDE: &str = r#"
set -eu
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null || umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/init
echo $$ > /sys/fs/cgroup/init/cgroup.procs
trap '"$1" --root "$2/state" delete -f box >&2 || true' EXIT
"$1" --root "$2/state" run -d --bundle "$2" box </dev/null >&2
echo ready
read -r line || true
"#;
/// Joins the cgroup $1, which the namespace then takes for the root.
const OUTSIDE: &str = r#"echo $$ > "$1/cgroup.procs" && shift && exec unshare -m -C sh -c "$@""#;

/// A running container; it and all its traces go with the value.
pub struct Container {
    keeper: Child,
    bundle: PathBuf,
    scratch: Cgroup,
    below: String,
}

impl Container {
    /// Starts one with these device rules (OCI `linux.resources.devices`); the
    /// error is what the runtime says.
    pub fn start(runtime: &str, rules: &Value) -> Result<Self, String> {
        Self::run(runtime, &Bundle::sleeping(rules))
    }

    /// Starts one.
    pub fn run(runtime: &str, what: &Bundle) -> Result<Self, String> {
        let scratch = Cgroup::new().expect("a scratch cgroup");
        let name = scratch.path().file_name().expect("a name");
        let bundle = std::env::temp_dir().join(name);
        what.write(&bundle);
        let mut command = Command::new("sh");
        command.args(["-c", OUTSIDE, "sh"]).arg(scratch.path()).args([INSIDE, "sh", runtime]).arg(&bundle);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = bundle.join("log");
        command.stderr(fs::File::create(&log).expect("a log"));
        // SAFETY: the closure makes one system call on constant memory.
        unsafe { command.pre_exec(pretend_memlock) };
        let below = what.cgroup.trim_matches('/').to_owned();
        let mut container = Self { keeper: command.spawn().expect("a shell"), bundle, scratch, below };
        let mut line = String::new();
        let output = container.keeper.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        if line != "ready\n" {
            return Err(fs::read_to_string(log).unwrap_or_default());
        }
        while container.is_starting() {
            std::thread::yield_now();
        }
        Ok(container)
    }

    /// Whether the runtime has not yet become the container's program: it says
    /// so a moment before.
    fn is_starting(&self) -> bool {
        let pids = fs::read_to_string(self.cgroup().join("cgroup.procs")).unwrap_or_default();
        let names = pids.lines().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        names.into_iter().any(|name| name.starts_with("runc:") || name.starts_with("exe"))
    }

    /// The container's cgroup.
    pub fn cgroup(&self) -> PathBuf {
        self.scratch.path().join(&self.below)
    }

    /// The cgroup that is the root for the runtime.
    pub fn root(&self) -> &Path {
        self.scratch.path()
    }

    /// Waits until the container has this file.
    pub fn wait_for(&self, path: &str) {
        let path = format!("/proc/{}/root{path}", self.pid());
        for _ in 0..3000 {
            if Path::new(&path).exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("no {path}: {}", fs::read_to_string(self.bundle.join("log")).unwrap_or_default());
    }

    /// The container's first process.
    pub fn pid(&self) -> u32 {
        let members = fs::read_to_string(self.cgroup().join("cgroup.procs")).expect("a cgroup");
        members.lines().next().expect("a process").parse().expect("a pid")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        let _ = fs::write(self.scratch.path().join("cgroup.kill"), "1");
        let ends = self.below.match_indices('/').map(|(at, _)| at).chain([self.below.len()]);
        let levels: Vec<&str> = ends.filter_map(|end| self.below.get(..end)).collect();
        for below in levels.into_iter().rev().chain(["init"]) {
            drop(Cgroup::open(self.scratch.path().join(below)));
        }
        let _ = fs::remove_dir_all(&self.bundle);
    }
}

/// crun raises `RLIMIT_MEMLOCK` and gives up where it may not, although BPF
/// needs no such limit since Linux 5.11: this lets the call succeed and do
/// nothing.
pub fn pretend_memlock() -> std::io::Result<()> {
    const fn statement(code: u32, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
    }
    /// Goes on if equal, else skips `jf` instructions.
    const fn equal(k: u32, jf: u8) -> libc::sock_filter {
        libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf, k }
    }
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const FIRST_ARGUMENT: u32 = 16;
    const MEMLOCK: u32 = libc::RLIMIT_MEMLOCK;
    // The low half of an argument comes first on little-endian machines.
    static FILTER: [libc::sock_filter; 9] = [
        statement(LOAD, 0),
        equal(libc::SYS_prlimit64 as u32, 6),
        statement(LOAD, FIRST_ARGUMENT + 8),
        equal(MEMLOCK, 4),
        // A null pointer only asks.
        statement(LOAD, FIRST_ARGUMENT + 16),
        equal(0, 1),
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
        statement(RETURN, libc::SECCOMP_RET_ERRNO),
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: FILTER.len() as u16, filter: FILTER.as_ptr().cast_mut() };
    // SAFETY: the filter is constant and outlives the call.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
