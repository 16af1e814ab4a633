//! Drivers' libraries that the host has installed, found before a process maps
//! one: a program can open a library and initialise it at once, before anybody
//! sees its mapping. A probe belongs to the file, so this holds in containers
//! too, which get the host's files mounted into them.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::driver::is_driver;
use super::{files, linker};
use crate::sys::absence::{OrAbsent as _, is_absence};
use crate::sys::dir::Dir;
use crate::sys::regular_file::{NotOpened, RegularFile};
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
/// Libraries at most.
const LIBRARIES: usize = 64;

/// The libraries that are installed.
#[derive(Clone, Debug, Default)]
pub struct InstalledDrivers {
    /// Their paths, each file once.
    pub paths: Vec<PathBuf>,
    /// Places that could not be looked at, and why: there may be more libraries.
    pub unread: Vec<(PathBuf, String)>,
}

/// The libraries below `root`.
pub fn installed(root: &Path) -> InstalledDrivers {
    let (mut found, mut seen) = (InstalledDrivers::default(), HashSet::new());
    for directory in directories(root, &mut found.unread) {
        let names = match libraries(&directory).or_absent() {
            Ok(names) => names.unwrap_or_default(),
            // What is no directory has no libraries.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            Err(error) => {
                found.unread.push((directory, error.to_string()));
                continue;
            }
        };
        for path in names {
            match RegularFile::find_path(&path) {
                Ok(file) if found.paths.len() < LIBRARIES && seen.insert(files::id(file.stat())) => {
                    found.paths.push(path);
                }
                // One that leads nowhere or to no regular file is no library.
                Ok(_) | Err(NotOpened::NotRegular | NotOpened::Call(Errno::ELOOP | Errno::ENOTDIR)) => {}
                Err(NotOpened::Call(errno)) if is_absence(errno) => {}
                Err(why) => found.unread.push((path, why.to_string())),
            }
        }
    }
    found
}

/// Whether only root, or who runs gpumap, says what is in a directory: in one
/// of a user's a link could lead to a place that never answers.
fn is_roots(directory: &Path) -> io::Result<bool> {
    const OTHERS_WRITE: u16 = 0o022;
    let own = nix::unistd::geteuid().as_raw();
    let roots = |stat: FileStat| [0, own].contains(&stat.uid) && stat.permissions & OTHERS_WRITE == 0;
    Ok(roots(Dir::open(directory).and_then(|dir| stat_at(&dir, c""))?))
}

/// The usual directories and those of the dynamic linker's configuration.
fn directories(root: &Path, unread: &mut Vec<(PathBuf, String)>) -> Vec<PathBuf> {
    let usual = USUAL.iter().map(|path| linker::below(root, Path::new(path)));
    let mut seen = HashSet::new();
    usual.chain(linker::directories(root, unread)).filter(|path| seen.insert(path.clone())).collect()
}

/// What a directory of root's has that is a driver's library by name.
fn libraries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    if !is_roots(directory)? {
        return Ok(Vec::new());
    }
    linker::entries(directory, |name| is_driver(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs;
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
        let inodes: Vec<u64> = installed(&root).paths.iter().map(inode).collect();
        assert!(installed(&root).unread.is_empty());
        let expected =
            ["usr/lib64/libcuda.so.550.54", "srv/a b/libamdhip64.so.6", "srv/old/libhsa-runtime64.so.1"];
        assert_eq!(inodes, expected.map(|path| inode(&root.join(path))));
        fs::remove_dir_all(root).unwrap();
    }
}
