//! What users paste where a cgroup or a process is asked for: `0::/system.slice`, as
//! /proc/PID/cgroup prints it, and `/proc/31337`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::model::CgroupPathBuf;

/// Reads the path of a cgroup.
pub fn cgroup() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text: OsString| CgroupPathBuf::pasted(&text).to_owned())
}

/// The process whose cgroup `/proc/PID` or `/proc/PID/cgroup` means.
pub fn process_of(path: &Path) -> Option<u32> {
    let below = path.strip_prefix("/proc").ok()?;
    let mut names = below.iter();
    let pid = names.next()?.to_str()?.parse().ok()?;
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
        for other in ["/proc", "/proc/self", "/proc/17/fd", "/17", "proc/17", "/sys/fs/cgroup/proc/17"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!((pid("17"), pid("/proc/17")), (Ok(17), Ok(17)));
        assert!(pid("python3").unwrap_err().contains("pgrep -d' ' python3"));
        assert!(!pid("$(x)").unwrap_err().contains("pgrep"));
    }
}
