//! Commands of a runtime for a container that runs. They see the mounts that it saw
//! at the start.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Bundle, Container, pretend_memlock};

impl Container {
    /// The runtime as it was at the start, to be given a subcommand.
    fn runtime(&self, runtime: &str) -> Command {
        let keeper = self.keeper.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-m", "-C", "-t", &keeper, runtime, "--root"]).arg(self.bundle.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: the closure makes one system call on constant memory.
        unsafe { command.pre_exec(pretend_memlock) };
        command
    }

    /// Lets the runtime update it without anything to change.
    pub fn update(&self, runtime: &str) {
        self.update_to(runtime, &json!({}));
    }

    /// Lets the runtime update it to these OCI `linux.resources`.
    pub fn update_to(&self, runtime: &str, wanted: &Value) {
        let resources = self.bundle.join("resources.json");
        fs::write(&resources, wanted.to_string()).expect("a file");
        let mut command = self.runtime(runtime);
        command.args(["update", "--resources"]).arg(resources).arg("box").stdout(Stdio::piped());
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
}
