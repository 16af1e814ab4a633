//! Kernel settings that a test changes for a while.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, then writes its first argument into the file
/// that the second one names.
const RESTORE: &str = "read -r _; printf %s \"$1\" >\"$2\"";

/// A setting that gets its old value back: when this value is dropped, and also
/// when the test is killed. Another process restores it, which waits for the end
/// of a pipe from this one; the kernel closes the pipe however this one ends.
pub struct Setting {
    path: PathBuf,
    old: String,
    keeper: Child,
}

impl Setting {
    /// Changes a file below `/proc/sys`.
    pub fn change(name: &str, value: &str) -> io::Result<Self> {
        Self::change_file(Path::new("/proc/sys").join(name), value)
    }

    /// Changes any file.
    pub fn change_file(path: PathBuf, value: &str) -> io::Result<Self> {
        let old = current(&path)?;
        let keeper = Command::new("sh")
            .args(["-c", RESTORE, "restore", &old])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A signal to the test's process group must not reach it.
            .process_group(0)
            .spawn()?;
        fs::write(&path, value)?;
        Ok(Self { path, old, keeper })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let ended = self.keeper.wait();
        let now = current(&self.path).unwrap_or_default();
        if now != self.old {
            eprintln!("{} is {now} and not {} again: {ended:?}", self.path.display(), self.old);
        }
    }
}

/// What a file says; of one that lists what can be chosen, as `none (full)`, what is.
fn current(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let chosen = text.split_once('(').and_then(|(_, rest)| Some(rest.split_once(')')?.0));
    Ok(chosen.unwrap_or(text.trim()).to_owned())
}
