//! Runs gpumap on what it saved of a node with four invented GPUs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpumap::model::{Device, Request, Verdict};
use serde_json::Value;

use super::field;
use crate::support::node::four_gpus;

/// gpumap with the file that it reads.
pub(super) struct Gpumap<'a> {
    pub(super) from: &'a Path,
    /// Whether all views are asked for.
    pub(super) all: bool,
}

/// The gpumap that is asked: in a long run an optimised one.
fn command() -> Command {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_gpumap"));
    let program = std::env::var_os("GPUMAP_TEST_OPTIMISED").map_or_else(built, PathBuf::from);
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(Stdio::null()).env_remove("CLICOLOR_FORCE");
    command
}

/// Saves what gpumap sees of a cgroup.
pub fn snapshot(cgroup: &Path, to: &Path) {
    let mut command = command();
    command.arg("--gpu-root").arg(four_gpus()).arg("snapshot").arg(cgroup).arg("-o").arg(to);
    assert!(command.status().is_ok_and(|status| status.code().is_some()), "gpumap snapshot");
}

/// A question as `check` reads it.
pub(super) fn question(device: Device, request: Request) -> String {
    format!("{device} {}", request.letters())
}

impl Gpumap<'_> {
    /// What it prints.
    pub(super) fn text(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(arguments, String::new())
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let text = self.text(&[arguments, &["--json"]].concat())?;
        serde_json::from_str(&text).map_err(|error| format!("{arguments:?}: {error}"))
    }

    /// What the lines of `check` say, question by question.
    pub(super) fn check(
        &self,
        cgroup: &str,
        questions: &[(Device, Request)],
    ) -> Result<Vec<Verdict>, String> {
        let text = self.run(&["check", "--cgroup", cgroup, "-"], lines(questions))?;
        let words = text.lines().filter_map(|line| Some(line.split_once('\t')?.0));
        all(words.map(|word| field(&word.into())).collect::<Result<_, _>>()?, questions)
    }

    /// The same of its JSON.
    pub(super) fn check_json(
        &self,
        cgroup: &str,
        questions: &[(Device, Request)],
    ) -> Result<Vec<Verdict>, String> {
        let text = self.run(&["check", "--cgroup", cgroup, "-", "--json"], lines(questions))?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let answers = answer["checks"].as_array().ok_or("no answers")?;
        all(answers.iter().map(|one| field(&one["verdict"])).collect::<Result<_, _>>()?, questions)
    }

    fn run(&self, arguments: &[&str], input: String) -> Result<String, String> {
        let mut command = command();
        command.args(arguments).arg("--from").arg(self.from).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut pipe = child.stdin.take().ok_or("no pipe")?;
        // A command that does not read what it is given closes the pipe.
        let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let _ = writer.join();
        let code = output.status.code().filter(|code| [0, 1, 3].contains(code));
        code.ok_or_else(|| format!("{arguments:?}: {}", output.status))?;
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    }
}

fn lines(questions: &[(Device, Request)]) -> String {
    questions.iter().map(|(device, request)| question(*device, *request) + "\n").collect()
}

fn all(verdicts: Vec<Verdict>, questions: &[(Device, Request)]) -> Result<Vec<Verdict>, String> {
    if verdicts.len() == questions.len() {
        return Ok(verdicts);
    }
    Err(format!("check answers {} of {} questions", verdicts.len(), questions.len()))
}
