//! The list of MIG instances that `nvidia-smi -L` prints, from where the administrator
//! names: a file of it, or the program itself, which gpumap runs then.
//!
//! Only the vendor's library knows the UUIDs of instances. It is not loaded here: packages
//! have a static gpumap, which cannot load libraries, and a library has all rights of who
//! loads it. A program is cut off from both.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::model::ProblemCode;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::site_config::{self, MigConfig};
use crate::sys::dir::{open_readable, read_all};
use crate::sys::program::{ProgramError, printed_by};
use crate::sys::retry::again;

/// Bytes of a list.
const LIST_LIMIT: usize = 1 << 20;
/// How long the program may take. It starts the driver's library, which takes seconds where
/// nothing keeps the GPUs awake.
const LIMIT: Duration = Duration::from_secs(10);
/// Symbolic links on the way to the program, as the kernel counts them.
const LINKS: usize = 40;
/// What helps where the program does not.
const INSTEAD: &str = "name a file of its output: nvidia-smi -L > FILE, with list = \"FILE\" under [mig]";

/// The list, if the caller or the site's configuration names one. What is named and cannot be
/// had is a problem.
pub(super) fn named(options: &Options, log: &mut Log) -> Option<String> {
    if let Some(path) = &options.mig_list {
        return file(path, log);
    }
    let MigConfig { list, program } = site_config::read(options, log).mig;
    let Some(program) = program else { return file(&list?, log) };
    let what = format!("{} -L", program.display());
    match run(&program, log.deadline()) {
        Ok(text) => believed(what, &text, log),
        // Commands that run on gave that up. They take the file, if there is one.
        Err(Failure::Program(ProgramError::Execute(Errno::EPERM))) => {
            if let Some(list) = list {
                return file(&list, log);
            }
            log.add(
                ProblemCode::NoRight,
                what,
                "starting it is refused: commands that run on give that up, and a security module may",
                INSTEAD,
            );
            None
        }
        Err(Failure::Program(error)) => {
            let code = match error {
                ProgramError::TimedOut(_) => ProblemCode::Timeout,
                ProgramError::TooLong(_) => ProblemCode::TooLarge,
                _ => ProblemCode::Unreadable,
            };
            log.add(code, what, error.to_string(), INSTEAD);
            None
        }
        Err(Failure::Path(why)) => {
            log.add(
                ProblemCode::BadConfig,
                what,
                why,
                "name a program that root alone may change, by its path",
            );
            None
        }
    }
}

fn file(path: &Path, log: &mut Log) -> Option<String> {
    let mut text = Vec::new();
    match open_readable(path).and_then(|file| read_all(file, &mut text, LIST_LIMIT)) {
        Ok(()) => believed(path.to_string_lossy().into_owned(), &text, log),
        Err(errno) => {
            log.failed(path.to_string_lossy(), errno);
            None
        }
    }
}

/// The text, if it has the line of any GPU.
fn believed(what: String, text: &[u8], log: &mut Log) -> Option<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    if text.lines().any(|line| line.starts_with("GPU ") || line.starts_with("MIG-GPU-")) {
        return Some(text);
    }
    log.add(ProblemCode::Unreadable, what, "it has no line of a GPU", "name the output of nvidia-smi -L");
    None
}

/// Why a program printed no list.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// It was not run: its path is not root's alone.
    Path(String),
    Program(ProgramError),
}

fn run(program: &Path, deadline: Option<Instant>) -> Result<Vec<u8>, Failure> {
    let file = roots_alone(program).map_err(Failure::Path)?;
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    printed_by(&file, c"-L", left.map_or(LIMIT, |left| left.min(LIMIT)), LIST_LIMIT).map_err(Failure::Program)
}

/// The regular file that an absolute path leads to, without links, if root alone may change
/// it, every directory on the way and every link. So nobody can put another one in its place.
/// An access control list shows in the group's bits.
fn roots_alone(path: &Path) -> Result<PathBuf, String> {
    let failed = |at: &Path, error: &io::Error| format!("{}: {error}", at.display());
    let mut rest: Vec<PathBuf> = Vec::new();
    let add = |path: &Path, rest: &mut Vec<PathBuf>| {
        rest.extend(path.components().rev().map(|part| PathBuf::from(part.as_os_str())));
    };
    if !path.is_absolute() {
        return Err("it is no absolute path".to_owned());
    }
    add(path, &mut rest);
    let (mut at, mut links) = (PathBuf::new(), 0);
    let mut is_file = false;
    while let Some(part) = rest.pop() {
        // What has no link in it has its parent in the path.
        if part.components().next() == Some(Component::ParentDir) {
            at.pop();
            continue;
        }
        let next = at.join(part);
        let facts = again(|| next.symlink_metadata()).map_err(|error| failed(&next, &error))?;
        let is_link = facts.file_type().is_symlink();
        if facts.uid() != 0 || (!is_link && facts.mode() & 0o022 != 0) {
            return Err(format!("others than root may change {}", next.display()));
        }
        if is_link {
            links += 1;
            if links > LINKS {
                return Err(format!("{}: too many links", next.display()));
            }
            add(&again(|| next.read_link()).map_err(|error| failed(&next, &error))?, &mut rest);
            continue;
        }
        is_file = facts.file_type().is_file();
        at = next;
    }
    if is_file { Ok(at) } else { Err(format!("{} is no regular file", at.display())) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Make sure that a path counts only where root alone decides what it leads to.
    #[test]
    fn paths() {
        let program = fs::canonicalize("/usr/bin/env").unwrap();
        assert_eq!(roots_alone("/usr/bin/env".as_ref()), Ok(program.clone()));
        assert_eq!(roots_alone("/usr/bin/../lib/../bin/./env".as_ref()), Ok(program));
        let scratch = std::env::temp_dir().join(format!("gpumap-roots-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        symlink("/usr/bin/env", scratch.join("link")).unwrap();
        let cases = [
            ("usr/bin/env", "absolute"),
            ("/usr", "no regular file"),
            ("/dev/null", "others than root"),
            ("/usr/bin/no such program", "No such file"),
            ("/usr/bin/env/below", "Not a directory"),
        ];
        for (path, why) in cases {
            let refused = roots_alone(path.as_ref()).unwrap_err();
            assert!(refused.contains(why), "{path}: {refused}");
        }
        // Whoever may write the directory may put another link there.
        let refused = roots_alone(&scratch.join("link")).unwrap_err();
        assert!(refused.contains("others than root"), "{refused}");
        fs::remove_dir_all(scratch).unwrap();
    }
}
