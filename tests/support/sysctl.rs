//! Kernel settings that a test changes for a while.

use std::fs;
use std::path::PathBuf;

/// Puts the old value back when dropped, also after a failure.
pub struct Setting {
    path: PathBuf,
    old: String,
}

impl Setting {
    /// Changes a file below `/proc/sys`.
    pub fn change(name: &str, value: &str) -> std::io::Result<Self> {
        let path = PathBuf::from("/proc/sys").join(name);
        let old = fs::read_to_string(&path)?.trim().to_owned();
        fs::write(&path, value)?;
        Ok(Self { path, old })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.old) {
            eprintln!("{} could not be set back to {}: {error}", self.path.display(), self.old);
        }
    }
}
