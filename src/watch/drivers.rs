//! Drivers' libraries that the host has installed, found before a process maps
//! one: a program can open a library and initialise it at once, before anybody
//! sees its mapping. A probe belongs to the file, so this holds in containers
//! too, which get the host's files mounted into them.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::identity::Mounts;
use super::libraries::FileId;
use super::mapped::is_driver;

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
/// ldconfig(8).
const CONFIGURATION: &str = "/etc/ld.so.conf";
/// Bounds: configurations, their bytes, directories, entries of one, libraries.
const CONFIGURATIONS: usize = 64;
const BYTES: u64 = 64 << 10;
const DIRECTORIES: usize = 256;
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
    let mut found: Vec<PathBuf> = USUAL.iter().map(|path| below(root, Path::new(path))).collect();
    let mut waiting = VecDeque::from([below(root, Path::new(CONFIGURATION))]);
    for _ in 0..CONFIGURATIONS {
        let Some(path) = waiting.pop_front() else { break };
        let base = path.parent().unwrap_or(root).to_owned();
        for line in read(&path).split(|byte| *byte == b'\n').filter_map(parse) {
            match line {
                Line::Directory(path) => found.push(below(root, path)),
                Line::Include(pattern) if pattern.is_absolute() => {
                    waiting.extend(files(&below(root, pattern)))
                }
                Line::Include(pattern) => waiting.extend(files(&base.join(pattern))),
            }
        }
    }
    let mut seen = HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    found.truncate(DIRECTORIES);
    found
}

/// The regular files of a directory that are drivers' libraries by name.
fn libraries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES);
    let entries = entries.filter(|entry| is_driver(entry.file_name().as_bytes()));
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

/// What a line of ld.so.conf says.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Directory(&'a Path),
    Include(&'a Path),
}

/// One line; `None` for comments, `hwcap` and what names no path.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let text = line.split(|byte| *byte == b'#').next()?.trim_ascii();
    if let Some(pattern) =
        text.strip_prefix(b"include").filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
    {
        return Some(Line::Include(Path::new(OsStr::from_bytes(pattern.trim_ascii()))));
    }
    // A type of library may follow, of which there has been one for long.
    let path = Path::new(OsStr::from_bytes(text.split(|byte| *byte == b'=').next()?.trim_ascii()));
    path.is_absolute().then_some(Line::Directory(path))
}

/// The files that a pattern means whose last part has at most one star; others
/// are not in use.
fn files(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let mut parts = name.split(|byte| *byte == b'*');
    let (Some(start), Some(end)) = (parts.next(), parts.next()) else { return vec![pattern.to_owned()] };
    let matches = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(start);
        rest.is_some_and(|rest| rest.ends_with(end)) && !name.as_bytes().starts_with(b".")
    };
    let entries = pattern.parent().and_then(|parent| fs::read_dir(parent).ok());
    let entries = entries.into_iter().flatten().flatten().take(ENTRIES);
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| matches(&entry.file_name())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn read(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let file = Some(path).filter(|path| path.is_file()).and_then(|path| File::open(path).ok());
    let read = file.map(|file| file.take(BYTES).read_to_end(&mut text));
    if matches!(read, Some(Ok(_))) { text } else { Vec::new() }
}

/// An absolute path below another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
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
        write("etc/ld.so.conf", "# first\ninclude ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\nhwcap 1 x\n");
        write("etc/ld.so.conf.d/a.conf", " /srv/a b # there\n/srv/a b\n/srv/nothing\nrelative\n");
        write("etc/ld.so.conf.d/b.conf", "/srv/old=libc6\n/usr/lib64");
        write("etc/ld.so.conf.d/c.conf.off", "/srv/hidden");
        write("etc/ld.so.conf.d/.d.conf", "/srv/hidden");
        let inodes: Vec<u64> = installed(&root).iter().map(|found| found.id.1).collect();
        let expected =
            ["usr/lib64/libcuda.so.550.54", "srv/a b/libamdhip64.so.6", "srv/old/libhsa-runtime64.so.1"];
        let inode = |path: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(root.join(path)).unwrap());
        assert_eq!(inodes, expected.map(inode));
        fs::remove_dir_all(root).unwrap();
    }

    /// Make sure that a line is read as ldconfig reads it, whatever is in it.
    #[test]
    fn lines() {
        let directory = |path| Some(Line::Directory(Path::new(path)));
        assert_eq!(parse(b"\t/usr/lib # /no"), directory("/usr/lib"));
        assert_eq!(parse(b"include\ta/*.conf "), Some(Line::Include(Path::new("a/*.conf"))));
        assert_eq!(parse(b"/include"), directory("/include"));
        for nothing in [&b""[..], b"#/usr/lib", b"includes /usr", b"hwcap 0 nosegneg", b"\xff"] {
            assert_eq!(parse(nothing), None, "{nothing:?}");
        }
    }
}
