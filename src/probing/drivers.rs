//! Drivers' libraries that the host has installed, found before a process maps
//! one: a program can open a library and initialise it at once, before anybody
//! sees its mapping. A probe belongs to the file, so this holds in containers
//! too, which get the host's files mounted into them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::driver::is_driver;
use super::{files, linker};
use crate::sys::dir::Dir;
use crate::sys::regular_file::RegularFile;
use crate::sys::stat::{FileStat, stat_at};

/// Where distributions, vendors' installers and node images put drivers,
/// beside what the dynamic linker's configuration names.
const USUAL: [&str; 15] = [
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
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/opengl-driver/lib",
];
/// Bounds: entries of a directory, libraries.
const ENTRIES: usize = 1 << 16;
const LIBRARIES: usize = 64;

/// Paths of the libraries below `root`, each file once.
pub fn installed(root: &Path) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let paths = directories(root).into_iter().filter(|directory| is_roots(directory));
    let paths = paths.flat_map(|directory| libraries(&directory));
    let new =
        |path: &PathBuf| RegularFile::find_path(path).is_ok_and(|file| seen.insert(files::id(file.stat())));
    paths.filter(new).take(LIBRARIES).collect()
}

/// Whether only root, or who runs gpumap, says what is in a directory: in one
/// of a user's a link could lead to a place that never answers.
fn is_roots(directory: &Path) -> bool {
    const OTHERS_WRITE: u16 = 0o022;
    let own = nix::unistd::geteuid().as_raw();
    let roots = |stat: FileStat| [0, own].contains(&stat.uid) && stat.permissions & OTHERS_WRITE == 0;
    Dir::open(directory).and_then(|dir| stat_at(&dir, c"")).is_ok_and(roots)
}

/// The usual directories and those of the dynamic linker's configuration.
fn directories(root: &Path) -> Vec<PathBuf> {
    let usual = USUAL.iter().map(|path| linker::below(root, Path::new(path)));
    let mut seen = HashSet::new();
    usual.chain(linker::directories(root)).filter(|path| seen.insert(path.clone())).collect()
}

/// What a directory has that is a driver's library by name.
fn libraries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES);
    let entries = entries.filter(|entry| is_driver(entry.file_name().as_bytes()));
    entries.map(|entry| entry.path()).collect()
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
        write("etc/ld.so.conf", "/srv/a b\n/srv/nothing\n/srv/open\n/srv/old\n/usr/lib64\n/srv/a b");
        // Whoever may write there may put anything there.
        write("srv/open/libcuda.so.1", "");
        fs::set_permissions(root.join("srv/open"), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let inode = |path: &PathBuf| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let inodes: Vec<u64> = installed(&root).iter().map(inode).collect();
        let expected =
            ["usr/lib64/libcuda.so.550.54", "srv/a b/libamdhip64.so.6", "srv/old/libhsa-runtime64.so.1"];
        assert_eq!(inodes, expected.map(|path| inode(&root.join(path))));
        fs::remove_dir_all(root).unwrap();
    }
}
