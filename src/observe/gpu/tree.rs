//! Reads a file tree below a prefix, within bounds.
//!
//! All GPU facts are read through it, so that no path can make gpumap open a
//! device, block on a pipe, or keep more than a fixed amount of text.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::model::ProblemCode;
use crate::observation::{GpuFacts, Problem};
use crate::sys::absence::{is_absence, is_removal};
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Bytes read of an ordinary file.
pub(super) const FILE_LIMIT: usize = 64 << 10;
/// Bytes of text kept in all.
const TOTAL_LIMIT: usize = 32 << 20;
/// Directory entries looked at before giving up on the rest.
const SCAN_LIMIT: usize = 16_384;

/// The tree, the facts found in it so far, and what went wrong.
pub(super) struct Tree<'a> {
    root: &'a Path,
    /// Whether the root is the node's own `/`.
    pub(super) live: bool,
    /// The facts so far.
    pub(super) facts: GpuFacts,
    errors: &'a mut Vec<Problem>,
    budget: usize,
}

impl<'a> Tree<'a> {
    /// A tree at `root`; `//`, `/.` and the like are live too.
    pub(super) fn new(root: &'a Path, errors: &'a mut Vec<Problem>) -> Self {
        let identity = |path: &Path| again(|| fs::metadata(path)).map(|meta| (meta.dev(), meta.ino()));
        let (live, unknown) = match (identity(root), identity(Path::new("/"))) {
            (Ok(root), Ok(slash)) => (root == slash, None),
            (Err(error), _) | (_, Err(error)) => (root == Path::new("/"), Some(error)),
        };
        let mut tree = Self { root, live, facts: GpuFacts::default(), errors, budget: TOTAL_LIMIT };
        if let Some(error) = unknown {
            let name = root.to_string_lossy().into_owned();
            tree.problem(ProblemCode::Unreadable, &name, error.to_string(), "--gpu-root DIR".to_owned());
        }
        tree
    }

    /// The path on this system of a path on the node.
    pub(super) fn real(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file of at most [`FILE_LIMIT`] bytes into the facts; says
    /// whether it could be read.
    pub(super) fn file(&mut self, path: &str) -> bool {
        self.file_within(path, FILE_LIMIT)
    }

    /// As [`Tree::file`] with another limit in bytes.
    pub(super) fn file_within(&mut self, path: &str, limit: usize) -> bool {
        match self.text(path, limit) {
            Ok(text) => {
                self.budget = self.budget.saturating_sub(text.len());
                self.facts.files.insert(path.to_owned(), text);
                true
            }
            Err(error) => {
                self.failed(path, &error);
                false
            }
        }
    }

    /// The text of a regular file, cut to whole lines at `limit` bytes.
    pub(super) fn text(&mut self, path: &str, limit: usize) -> io::Result<String> {
        let limit = limit.min(self.budget);
        let mut bytes = read_regular(&self.real(path), limit)?;
        if bytes.len() > limit {
            let lines = bytes[..limit].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            bytes.truncate(lines);
            self.problem(ProblemCode::TooLarge, path, format!("cut at {limit} bytes"), String::new());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a symbolic link into the facts, if there is one.
    pub(super) fn link(&mut self, path: &str) {
        match again(|| fs::read_link(self.real(path))) {
            Ok(target) => {
                let target = target.to_string_lossy().into_owned();
                self.facts.links.insert(path.to_owned(), target);
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && self.is_no_link(path) => {}
            Err(error) => self.failed(path, &error),
        }
    }

    /// Whether something else than a link is there.
    fn is_no_link(&self, path: &str) -> bool {
        // What cannot be looked at may be a link that could not be read, which is told.
        again(|| fs::symlink_metadata(self.real(path))).is_ok_and(|there| !there.is_symlink())
    }

    /// Whether a directory is there. One that cannot be looked at is a problem, and may
    /// be there.
    pub(super) fn may_have(&mut self, path: &str) -> bool {
        match again(|| fs::metadata(self.real(path))) {
            Ok(meta) => meta.file_type().is_dir(),
            Err(error) => {
                self.failed(path, &error);
                problem(path, &error).is_some()
            }
        }
    }

    /// The names in a directory that `keep` accepts, sorted, at most `limit`.
    /// Names that are not UTF-8 belong to no GPU driver and are left out.
    pub(super) fn names(&mut self, dir: &str, limit: usize, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let (mut names, mut seen) = (Vec::new(), 0);
        let listed = Dir::open(&self.real(dir)).and_then(|dir| {
            dir.names(|name| {
                seen += 1;
                names.extend(name.to_str().filter(|name| keep(name)).map(str::to_owned));
                seen < SCAN_LIMIT
            })
        });
        if let Err(errno) = listed {
            self.failed(dir, &errno.into());
        }
        names.sort_unstable();
        if names.len() > limit || seen == SCAN_LIMIT {
            self.problem(
                ProblemCode::TooMany,
                dir,
                format!("only the first {limit} entries are used"),
                String::new(),
            );
            names.truncate(limit);
        }
        names
    }

    /// Records why something that exists could not be read. Something that is absent
    /// or has just vanished is no problem.
    pub(super) fn failed(&mut self, path: &str, error: &io::Error) {
        if let Some(problem) = problem(path, error) {
            self.errors.push(problem);
        }
    }

    /// Records a problem.
    pub(super) fn problem(&mut self, code: ProblemCode, what: &str, why: String, needs: String) {
        self.errors.push(Problem { code, what: what.to_owned(), why, needs });
    }
}

/// Up to `limit + 1` bytes of a regular file: one more than asked for tells
/// that there is more.
fn read_regular(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    // The type is tested before opening: opening a device has effects.
    if !again(|| fs::symlink_metadata(path))?.file_type().is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = again(|| OpenOptions::new().read(true).custom_flags(flags).open(path))?;
    let (mut bytes, mut file) = (Vec::new(), file.take(limit as u64 + 1));
    // What was read before an interruption stays in `bytes`.
    again(|| file.read_to_end(&mut bytes))?;
    Ok(bytes)
}

/// The problem that an error on `path` means; `None` if there is nothing at the
/// path.
fn problem(path: &str, error: &io::Error) -> Option<Problem> {
    let says_so = if path.starts_with("/sys/") { is_removal } else { is_absence };
    let (code, why, needs) = match error.raw_os_error() {
        Some(errno) if says_so(Errno::from_raw(errno)) => return None,
        // Above it something else than a directory is: nothing can be below.
        Some(libc::ENOTDIR) => return None,
        Some(libc::EPERM) if path.starts_with("/sys/class/kfd/") => (
            ProblemCode::NoRight,
            "amdkfd hides GPUs whose render node the reader's own device cgroup denies".to_owned(),
            "run outside restricted cgroups",
        ),
        Some(libc::EPERM | libc::EACCES) => (ProblemCode::NoRight, error.to_string(), "root"),
        _ => (ProblemCode::Unreadable, error.to_string(), ""),
    };
    Some(Problem { code, what: path.to_owned(), why, needs: needs.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_no_problem() {
        for errno in [libc::ENOENT, libc::ENOTDIR] {
            assert_eq!(problem("/proc/devices", &io::Error::from_raw_os_error(errno)), None);
        }
        let removed = io::Error::from_raw_os_error(libc::ENODEV);
        assert_eq!(problem("/sys/class/drm/card0/dev", &removed), None);
        assert!(problem("/proc/devices", &removed).is_some());
    }

    /// Make sure that what cannot be looked at is a problem, and may be there.
    #[test]
    fn failures_are_no_absence() {
        let long = format!("/{}", "x".repeat(300));
        let mut errors = Vec::new();
        let root = std::env::temp_dir();
        let mut tree = Tree::new(&root, &mut errors);
        assert!(tree.may_have(&long) && !tree.may_have("/nonexistent") && tree.may_have("/."));
        assert!(
            tree.names(&long, 9, |_| true).is_empty() && tree.names("/nonexistent", 9, |_| true).is_empty()
        );
        tree.link(&long);
        tree.link("/nonexistent");
        tree.link("/.");
        assert_eq!(errors.len(), 3, "{errors:?}");
        let mut errors = Vec::new();
        Tree::new(Path::new("/nonexistent"), &mut errors);
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn kfd_refusal_says_what_helps() {
        let path = "/sys/class/kfd/kfd/topology/nodes/1/gpu_id";
        let problem = problem(path, &io::Error::from_raw_os_error(libc::EPERM)).unwrap();
        assert_eq!((problem.code.as_str(), problem.what.as_str()), ("no-right", path));
        assert!(problem.why.contains("device cgroup") && problem.needs.contains("cgroup"));
    }

    #[test]
    fn other_failures_are_named() {
        let unreadable = problem("/proc/devices", &io::Error::from_raw_os_error(libc::EIO)).unwrap();
        assert_eq!(unreadable.code, ProblemCode::Unreadable);
    }

    #[test]
    fn the_root_by_other_names_is_live() {
        let mut errors = Vec::new();
        assert!(Tree::new(Path::new("/"), &mut errors).live);
        assert!(Tree::new(Path::new("//proc/.."), &mut errors).live);
        assert!(!Tree::new(Path::new("/proc"), &mut errors).live);
    }
}
