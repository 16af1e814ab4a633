//! The built program, and small things on a live node to ask it about.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::asm::{Asm, cond, size};
use super::bpf;
use super::cgroup::Cgroup;

/// The invented node with four GPUs.
pub fn four_gpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/four-h200")
}

/// The built program with arguments of any bytes.
pub fn command<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(args).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE").current_dir("/");
    command
}

pub fn gpumap<S: AsRef<OsStr>>(args: &[S]) -> Output {
    command(args).output().expect("the built program")
}

/// The document of a `--json` run, and the exit code.
pub fn json<S: AsRef<OsStr>>(args: &[S]) -> (Value, i32) {
    let args: Vec<&OsStr> =
        [OsStr::new("--json")].into_iter().chain(args.iter().map(AsRef::as_ref)).collect();
    document(&gpumap(&args))
}

pub fn document(output: &Output) -> (Value, i32) {
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(document["schema"], "gpumap/1");
    (document, output.status.code().expect("an exit code"))
}

/// Runs it as a user without rights.
pub fn as_nobody<S: AsRef<OsStr>>(args: &[S]) -> Output {
    command(args).uid(65534).gid(65534).output().expect("the built program")
}

/// Runs it with something to read.
pub fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run");
    let mut pipe = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(input).expect("a reader"));
        child.wait_with_output().expect("an end")
    })
}

/// A sleeping process, killed at the end.
pub struct Sleeper(Child);

impl Sleeper {
    /// Starts it and moves it into `cgroups`.
    pub fn new(cgroups: &[&Path]) -> Self {
        Self::run(OsStr::new("sleep"), cgroups)
    }

    /// The same under a command name of any bytes.
    pub fn called(name: &[u8], cgroups: &[&Path]) -> Self {
        let directory = std::env::temp_dir().join(format!("gpumap-sleeper-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join(OsStr::from_bytes(name));
        std::fs::copy("/bin/sleep", &program).unwrap();
        let sleeper = Self::run(program.as_os_str(), cgroups);
        std::fs::remove_dir_all(directory).unwrap();
        sleeper
    }

    fn run(program: &OsStr, cgroups: &[&Path]) -> Self {
        let child =
            Command::new(program).arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let sleeper = Self(child);
        for cgroup in cgroups {
            std::fs::write(cgroup.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
        }
        sleeper
    }

    pub fn in_cgroup(cgroup: &Cgroup) -> Self {
        Self::new(&[cgroup.path()])
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that denies one character device and allows the rest.
pub fn deny(major: i32, minor: i32) -> OwnedFd {
    let mut asm = Asm::new();
    let other = asm.label();
    asm.ldx(size::H, 2, 1, 0);
    asm.jump_if(cond::NE, 2, 2, other);
    asm.ldx(size::W, 2, 1, 4);
    asm.jump_if(cond::NE, 2, major, other);
    asm.ldx(size::W, 2, 1, 8);
    asm.jump_if(cond::NE, 2, minor, other);
    asm.verdict(0);
    asm.bind(other);
    asm.verdict(1);
    bpf::load(&asm.finish("deny one")).expect("a program").program
}

/// A program that allows everything.
pub fn allow_all() -> OwnedFd {
    let mut asm = Asm::new();
    asm.verdict(1);
    bpf::load(&asm.finish("allow all")).expect("a program").program
}

/// Attaches that program to a cgroup, until the cgroup goes.
pub fn attach_deny(cgroup: &Cgroup, major: i32, minor: i32, flags: u32) -> u32 {
    let program = deny(major, minor);
    bpf::attach(cgroup.dir(), &program, flags, None).expect("attached");
    super::inspect::program(&program).expect("info").id
}

/// A cgroup's path below the mount, as gpumap prints it.
pub fn relative(path: &Path) -> String {
    let root = super::cgroup::mount().expect("cgroup2");
    format!("/{}", path.strip_prefix(root).expect("below").display())
}
