//! Processes to look into: one small program, compiled in many ways.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/victim.c");

/// A directory that is removed with the value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gpumap-victim-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        // Other users run what is in it.
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Compiles the program, `flags` begin with the compiler.
    pub fn build(&self, flags: &str) -> PathBuf {
        let output = self.0.join(flags.replace([' ', '/'], "_"));
        let mut words = flags.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(["-O1", "-w", "-pthread", SOURCE, "-o"]).arg(&output).args(words);
        let result = command.output().unwrap();
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        output
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running process, killed with the value.
pub struct Victim(Child);

impl Victim {
    /// Starts a program with `CUDA_VISIBLE_DEVICES=0` and waits until it says
    /// that it is ready.
    pub fn start(program: &Path, mode: &str) -> Self {
        Self::run(Command::new(program).arg(mode))
    }

    pub fn run(command: &mut Command) -> Self {
        command.env_clear().env("FIRST", "x").env("CUDA_VISIBLE_DEVICES", "0").env("SECRET", "s3cret");
        Self::with_env(command)
    }

    /// The same with the command's own environment.
    pub fn with_env(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let victim = Self(child);
        assert_eq!(line, "ready\n");
        victim
    }

    /// Starts a program as another user with the same groups.
    pub fn as_user(program: &Path, uid: u32) -> Self {
        Self::run(Command::new(program).uid(uid))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends the process without reaping it. It has ended when this returns.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        let own = Id::Pid(Pid::from_raw(self.0.id().try_into().unwrap()));
        waitid(own, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
