//! Drivers' libraries that the host has installed, found before a process maps
//! one: a program can open a library and initialise it at once, before anybody
//! sees its mapping. A probe belongs to the file, so this holds in containers
//! too, which get the host's files mounted into them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::identity::Mounts;
use super::libraries::FileId;
use super::linker;
use crate::watch::driver::is_driver;

/// Where distributions, vendors' installers and node images put drivers,
/// beside what the dynamic linker's configuration names.
const USUAL: [&str; 14] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/cuda/compat",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/opt/rocm/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/opengl-driver/lib",
];
/// Bounds: entries of a directory, libraries.
const ENTRIES: usize = 1 << 16;
const LIBRARIES: usize = 64;

/// A library that no process needs to have mapped.
#[derive(Debug)]
pub(super) struct Installed {
    file: File,
    /// Which file it is, as a process's map would say.
    pub(super) id: FileId,
}

impl Installed {
    /// A path that leads to this very file.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// The libraries below `root`, each file once.
pub(super) fn installed(root: &Path) -> Vec<Installed> {
    let mounts = Mounts::read();
    let mut seen = HashSet::new();
    let paths = directories(root).into_iter().flat_map(|directory| libraries(&directory));
    let files = paths.filter_map(|path| {
        let file = File::open(path).ok()?;
        Some(Installed { id: mounts.identify(&file)?, file })
    });
    files.filter(|found| seen.insert(found.id)).take(LIBRARIES).collect()
}

/// The usual directories and those of the dynamic linker's configuration.
fn directories(root: &Path) -> Vec<PathBuf> {
    let usual = USUAL.iter().map(|path| linker::below(root, Path::new(path)));
    let mut seen = HashSet::new();
    usual.chain(linker::directories(root)).filter(|path| seen.insert(path.clone())).collect()
}

/// The regular files of a directory that are drivers' libraries by name.
fn libraries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES);
    let entries = entries.filter(|entry| is_driver(entry.file_name().as_bytes()));
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Make sure that each library is found once, wherever it is named, and
    /// that nothing else is.
    #[test]
    fn found() {
        let root = std::env::temp_dir().join(format!("gpumap-drivers-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("usr/lib64/libcuda.so.550.54", "");
        symlink("libcuda.so.550.54", root.join("usr/lib64/libcuda.so.1")).unwrap();
        symlink("nowhere", root.join("usr/lib64/libcuda.so")).unwrap();
        write("usr/lib64/libcudart.so.12", "");
        fs::create_dir_all(root.join("usr/lib64/libamdhip64.so.d")).unwrap();
        write("srv/a b/libamdhip64.so.6", "");
        write("srv/old/libhsa-runtime64.so.1", "");
        write("srv/hidden/libcuda.so.1", "");
        write("etc/ld.so.conf", "/srv/a b\n/srv/nothing\n/srv/old\n/usr/lib64\n/srv/a b");
        let inodes: Vec<u64> = installed(&root).iter().map(|found| found.id.1).collect();
        let expected =
            ["usr/lib64/libcuda.so.550.54", "srv/a b/libamdhip64.so.6", "srv/old/libhsa-runtime64.so.1"];
        let inode = |path: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(root.join(path)).unwrap());
        assert_eq!(inodes, expected.map(inode));
        fs::remove_dir_all(root).unwrap();
    }
}
