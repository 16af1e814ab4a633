//! The options that name the policy a question is about (a cgroup, a process, a program, a
//! file), and what users paste where a cgroup or a process is asked for.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};

use crate::model::{CgroupPathBuf, is_id};

/// Options that choose the policy to ask.
#[derive(Debug, Args)]
#[command(next_help_heading = "Target (default: gpumap's own cgroup)")]
pub struct TargetArgs {
    /// The programs in force on this cgroup: a file-system path, or a path
    /// from the cgroup root. A relative path starts in the working directory if
    /// that is a cgroup.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = cgroup(), conflicts_with_all = ["pid", "job", "prog"])]
    cgroup: Option<PathBuf>,
    /// The programs in force on the cgroup of this process.
    #[arg(long, value_name = "PID", value_parser = pid, conflicts_with_all = ["job", "prog"])]
    pid: Option<u32>,
    /// The programs in force on the cgroup of this job, by number or SLUID; its
    /// steps and tasks may be allowed less. A step is written 4711.0,
    /// 4711.batch; an array task 4711_3; a component of a heterogeneous job
    /// 4711+1.
    #[arg(long, value_name = "ID", conflicts_with = "prog")]
    job: Option<String>,
    /// This program: an id, a file as `gpumap prog` takes it, or `-` for
    /// standard input. Given several times, the programs run in this order.
    #[arg(long, value_name = "ID|FILE", value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().map(ProgramSource::from))]
    prog: Vec<ProgramSource>,
    /// Map contents for programs from files, as `bpftool -j map dump` writes
    /// them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "prog")]
    pub maps: Option<PathBuf>,
}

/// The policy to ask.
#[derive(Clone, Copy, Debug)]
pub enum PolicyTarget<'a> {
    /// The policy of a cgroup.
    Cgroup(&'a Path),
    /// The policy of a process's cgroup.
    Pid(u32),
    /// The policy of a job's own cgroup.
    Job(&'a str),
    /// The policy of programs, in run order.
    Programs(&'a [ProgramSource]),
    /// None was named: gpumap's own cgroup, or the one a saved observation was
    /// taken for.
    Own,
}

impl TargetArgs {
    /// The one target on the command line.
    pub fn target(&self) -> PolicyTarget<'_> {
        match (&self.cgroup, self.pid, &self.job, self.prog.as_slice()) {
            (Some(path), ..) => PolicyTarget::Cgroup(path),
            (_, Some(pid), ..) => PolicyTarget::Pid(pid),
            (_, _, Some(job), _) => PolicyTarget::Job(job),
            (.., []) => PolicyTarget::Own,
            (.., programs) => PolicyTarget::Programs(programs),
        }
    }
}

/// The source of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramSource {
    /// The kernel, by program id.
    Id(u32),
    /// A file; `-` is standard input.
    File(PathBuf),
}

impl From<OsString> for ProgramSource {
    /// All digits are an id; anything else is a file, so a file named `17` is
    /// written `./17`.
    fn from(text: OsString) -> Self {
        match text.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).map(str::parse) {
            Some(Ok(id)) => Self::Id(id),
            _ => Self::File(text.into()),
        }
    }
}

/// Reads the path of a cgroup.
pub fn cgroup() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text: OsString| CgroupPathBuf::pasted(&text).to_owned())
}

/// The process whose cgroup `/proc/PID` or `/proc/PID/cgroup` means.
pub fn process_of(path: &Path) -> Option<u32> {
    let below = path.strip_prefix("/proc").ok()?;
    let mut names = below.iter();
    let pid = match names.next()?.to_str()? {
        "self" => std::process::id(),
        number => number.parse().ok()?,
    };
    let rest: Vec<&OsStr> = names.collect();
    (rest.is_empty() || rest == ["cgroup"]).then_some(pid)
}

/// Reads a process's number, or its directory `/proc/PID`.
///
/// # Errors
///
/// A text that is no number, with the command that finds the number of a name.
pub fn pid(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("/proc/").map_or(text, |rest| rest.trim_end_matches('/'));
    number.parse().map_err(|_| {
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if is_id(text.as_bytes()) {
            return format!("not the number of a process; gpumap cgroup {text} finds a container or pod");
        }
        match is_name && !text.is_empty() && text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            true => format!("not the number of a process; $(pgrep -d' ' {text}) has those of a name"),
            false => "not the number of a process".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only /proc/PID is a process.
    #[test]
    fn processes() {
        let of = |path: &str| process_of(Path::new(path));
        assert_eq!((of("/proc/17"), of("/proc/17/cgroup"), of("/proc/17/")), (Some(17), Some(17), Some(17)));
        assert_eq!(of("/proc/self/cgroup"), Some(std::process::id()));
        for other in ["/proc", "/proc/selfish", "/proc/17/fd", "/17", "proc/17", "/sys/fs/cgroup/proc/17"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!((pid("17"), pid("/proc/17")), (Ok(17), Ok(17)));
        assert!(pid("python3").unwrap_err().contains("pgrep -d' ' python3"));
        assert!(!pid("$(x)").unwrap_err().contains("pgrep"));
    }
}
