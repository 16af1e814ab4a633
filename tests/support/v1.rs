//! Scratch groups of the v1 devices controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the v1 devices controller is mounted.
pub fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, at, "cgroup", options, ..] = words[..] else { return None };
        options.split(',').any(|option| option == "devices").then(|| at.into())
    })
}

/// A group that goes away with the value.
pub struct Group(PathBuf);

impl Group {
    /// A new group with these writes to `devices.deny` and `devices.allow`.
    pub fn new(mount: &Path, name: &str, writes: &[(&str, &str)]) -> Self {
        let path = mount.join(format!("gpumap-test-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a v1 group");
        let group = Self(path);
        for (file, line) in writes {
            fs::write(group.0.join(file), line).expect("a rule");
        }
        group
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn adopt(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("joined");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..200 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}
