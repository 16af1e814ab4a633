//! gpumap itself: its rights and its file.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use crate::observation::{Answer, OwnFile, Rights};
use crate::observe::view;
use crate::sys::caps::{Capabilities, Capability};
use crate::sys::retry::again;

/// The capabilities that gpumap has a use for.
const USED: [Capability; 8] = [
    Capability::SysAdmin,
    Capability::SysPtrace,
    Capability::DacReadSearch,
    Capability::Syslog,
    Capability::NetAdmin,
    Capability::Bpf,
    Capability::Perfmon,
    Capability::CheckpointRestore,
];
/// What this process may do.
pub(super) fn rights(proc: &Path) -> Rights {
    let held = Capabilities::effective();
    let names =
        |held: Capabilities| USED.iter().filter(|one| held.has(**one)).map(ToString::to_string).collect();
    let (foreign, unknown) = match view::foreign_namespaces(proc) {
        Ok(foreign) => (foreign, None),
        Err((name, errno)) => (Vec::new(), Some(format!("{name}: {}", errno.desc()))),
    };
    Rights {
        uid: nix::unistd::geteuid().as_raw(),
        capabilities: held.map(names).map_or_else(
            || Answer::Missing("/proc/thread-self/status cannot be read".to_owned()),
            Answer::Known,
        ),
        foreign_namespaces: foreign.into_iter().map(str::to_owned).collect(),
        namespaces_unknown: unknown,
        // Without the file the capabilities are not known, which is told.
        seccomp: has_filter(&again(|| fs::read_to_string("/proc/self/status")).unwrap_or_default()),
    }
}

/// Whether a status says that system calls are filtered (`SECCOMP_MODE_FILTER`).
fn has_filter(status: &str) -> bool {
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() == "2")
}

/// The file that this process executes.
pub(super) fn file() -> Answer<OwnFile> {
    let find = || {
        let path = again(|| fs::read_link("/proc/self/exe"))?;
        let metadata = again(|| fs::metadata("/proc/self/exe"))?;
        // The kernel adds this to the name of a file that was removed.
        let replaced = path.as_os_str().as_bytes().ends_with(b" (deleted)");
        let open_directory = if replaced { None } else { open_directory(&path) };
        let path_finds = path_finds(&metadata);
        let path = path.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
        let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        Ok(OwnFile { path, uid, mode, replaced, open_directory, path_finds })
    };
    find().map_or_else(|error: std::io::Error| Answer::Missing(error.to_string()), Answer::Known)
}

/// The nearest directory above the file that others may change entries of, or that cannot be
/// looked at. In one with
/// the sticky bit they may change their own alone.
fn open_directory(file: &Path) -> Option<String> {
    let look = |path: &Path| again(|| fs::symlink_metadata(path));
    let unknown = |path: &Path| Some(format!("{} (which cannot be looked at)", path.display()));
    // The answer names it as one that cannot be looked at.
    let Ok(own) = look(file).map(|found| found.uid()) else { return unknown(file) };
    let mut uid_below = own;
    for directory in file.ancestors().skip(1) {
        // The same.
        let Ok(found) = look(directory) else { return unknown(directory) };
        let is_ours = |uid: u32| uid == 0 || uid == nix::unistd::geteuid().as_raw();
        let by_group = found.mode() & 0o020 != 0 && found.gid() != 0;
        let by_others = by_group || found.mode() & 0o002 != 0;
        let is_sticky = found.mode() & 0o1000 != 0 && is_ours(uid_below);
        if !is_ours(found.uid()) || (by_others && !is_sticky) {
            return Some(directory.to_string_lossy().into_owned());
        }
        uid_below = found.uid();
    }
    None
}

/// The first `gpumap` of `PATH` that can be executed, if it is another file than this.
fn path_finds(own: &fs::Metadata) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).find_map(|directory| {
        let file = directory.join("gpumap");
        // The shell finds no file there that it may not look at either.
        let metadata = again(|| fs::metadata(&file)).ok()?;
        // As the shell does.
        (metadata.is_file() && access(&file, AccessFlags::X_OK).is_ok()).then_some((file, metadata))
    });
    let is_other = |found: &fs::Metadata| (found.dev(), found.ino()) != (own.dev(), own.ino());
    found.filter(|(_, metadata)| is_other(metadata)).map(|(file, _)| file.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that strict mode and no mode are no filter.
    #[test]
    fn filters() {
        assert!(has_filter("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!has_filter("Seccomp:\t0\nSeccomp_filters:\t2\n") && !has_filter(""));
    }

    /// Make sure that a test's own file is found.
    #[test]
    fn own_file() {
        let file = file().known().cloned().unwrap();
        assert!(!file.replaced && file.mode & 0o100 != 0 && file.path.starts_with('/'), "{file:?}");
    }
}
