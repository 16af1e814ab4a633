//! A container of a real runtime, in a mount and cgroup namespace of its own so
//! that the runtime sees nothing but cgroup2.

#![allow(unsafe_code, reason = "a seccomp filter is installed between fork and exec")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::cgroup::Cgroup;

/// The name of the container's cgroup below the scratch cgroup, unless asked
/// for otherwise.
const BOX: &str = "box";
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

/// What runs in a container, and where.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// OCI `linux.resources.devices`.
    pub rules: Value,
    /// Its cgroup, from the root that the runtime sees.
    pub cgroup: String,
    /// The command line.
    pub args: Vec<String>,
    /// The environment, beside `PATH`.
    pub env: Vec<String>,
    /// Programs to copy into `/bin`.
    pub programs: Vec<PathBuf>,
    /// Device nodes: path, major, minor.
    pub devices: Vec<(String, u32, u32)>,
    /// Files of the host that are mounted into `/bin`, as container toolkits do
    /// it with drivers' libraries.
    pub mounted: Vec<PathBuf>,
}

impl Bundle {
    /// A process that sleeps under these rules.
    pub fn sleeping(rules: &Value) -> Self {
        Self {
            rules: rules.clone(),
            cgroup: format!("/{BOX}"),
            args: vec!["/bin/sleep".into(), "600".into()],
            env: Vec::new(),
            programs: Vec::new(),
            devices: Vec::new(),
            mounted: Vec::new(),
        }
    }

    /// Writes it as a runtime reads it.
    pub fn write(&self, to: &Path) {
        for dir in ["bin", "proc", "dev", "sys", "out"] {
            fs::create_dir_all(to.join("rootfs").join(dir)).expect("a directory");
        }
        fs::copy("/bin/busybox", to.join("rootfs/bin/busybox")).expect("busybox");
        symlink("busybox", to.join("rootfs/bin/sleep")).expect("a link");
        for program in &self.programs {
            let name = program.file_name().expect("a name");
            fs::copy(program, to.join("rootfs/bin").join(name)).expect("a copy");
        }
        for file in &self.mounted {
            let name = file.file_name().expect("a name");
            fs::write(to.join("rootfs/bin").join(name), "").expect("a mount point");
        }
        fs::write(to.join("config.json"), self.configuration().to_string()).expect("a configuration");
    }

    fn configuration(&self) -> Value {
        let env: Vec<&str> = ["PATH=/bin"].into_iter().chain(self.env.iter().map(String::as_str)).collect();
        let device = |(path, major, minor): &(String, u32, u32)| json!({ "path": path, "type": "c", "major": major, "minor": minor, "fileMode": 0o666, "uid": 0, "gid": 0 });
        let mount = |file: &PathBuf| {
            let name = file.file_name().expect("a name").to_string_lossy();
            json!({ "destination": format!("/bin/{name}"), "type": "bind", "source": file, "options": ["bind", "ro"] })
        };
        let own = [
            json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
            json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs" }),
            json!({ "destination": "/out", "type": "tmpfs", "source": "tmpfs" }),
        ];
        let mounts: Vec<Value> = own.into_iter().chain(self.mounted.iter().map(mount)).collect();
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": 0, "gid": 0 }, "cwd": "/", "env": env,
                "args": self.args, "noNewPrivileges": true,
            },
            "root": { "path": "rootfs", "readonly": true },
            "mounts": mounts,
            "linux": {
                "cgroupsPath": self.cgroup,
                "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
                "namespaces": [{ "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" }],
                "resources": { "devices": self.rules },
            },
        })
    }
}

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

    /// The runtime as it was at the start, to be given a subcommand.
    fn runtime(&self, runtime: &str) -> Command {
        let keeper = self.keeper.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-m", "-C", "-t", &keeper, runtime, "--root"]).arg(self.bundle.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Lets the runtime update it without anything to change; the runtime sees
    /// what it saw at the start.
    pub fn update(&self, runtime: &str) {
        self.update_to(runtime, &json!({}));
    }

    /// Lets the runtime update it to these OCI `linux.resources`.
    pub fn update_to(&self, runtime: &str, wanted: &Value) {
        let resources = self.bundle.join("resources.json");
        fs::write(&resources, wanted.to_string()).expect("a file");
        let mut command = self.runtime(runtime);
        command.args(["update", "--resources"]).arg(resources).arg("box").stdout(Stdio::piped());
        // SAFETY: as above.
        unsafe { command.pre_exec(pretend_memlock) };
        let output = command.output().expect("nsenter");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Lets the runtime delete it and make it anew under other rules, in the
    /// same cgroup.
    pub fn remake(&self, runtime: &str, what: &Bundle) {
        fs::write(self.bundle.join("config.json"), what.configuration().to_string()).expect("a file");
        let log = self.bundle.join("again.log");
        for words in [&["delete", "-f"][..], &["run", "-d", "--bundle", self.bundle.to_str().expect("text")]]
        {
            let mut command = self.runtime(runtime);
            command.args(words).arg("box").stderr(fs::File::create(&log).expect("a log"));
            // SAFETY: as above.
            unsafe { command.pre_exec(pretend_memlock) };
            let status = command.status().expect("nsenter");
            assert!(status.success(), "{runtime}: {}", fs::read_to_string(&log).unwrap_or_default());
        }
    }

    /// Lets the runtime start a further process that stays, with these
    /// variables, and gives its pid as the runtime tells it.
    pub fn exec(&self, runtime: &str, env: &[&str], words: &[&str]) -> u32 {
        let file = self.bundle.join("pid");
        let log = fs::File::create(self.bundle.join("exec.log")).expect("a log");
        let mut command = self.runtime(runtime);
        command.args(["exec", "-d", "--pid-file"]).arg(&file).stderr(log);
        command.args(env.iter().flat_map(|variable| ["--env", variable]));
        let status = command.arg("box").args(words).status().expect("nsenter");
        let log = || fs::read_to_string(self.bundle.join("exec.log")).unwrap_or_default();
        assert!(status.success(), "{runtime} exec: {}", log());
        fs::read_to_string(file).expect("a pid file").trim().parse().expect("a pid")
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
