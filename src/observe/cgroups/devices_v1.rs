//! Reads the v1 devices controller. On a hybrid host it restricts devices in
//! addition to the programs.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::errno::Errno;

use super::mounts::Mount;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Answer, DevicesV1, DevicesV1Group, Process, Text};
use crate::observe::problems::Log;
use crate::observe::rights::missing;
use crate::sys::caps::Capability;
use crate::sys::dir::Dir;

/// `devices.list` is read up to this many bytes (some hundred thousand rules).
const LIST_LIMIT: usize = 4 << 20;
const LIST: &CStr = c"devices.list";

/// Reads the list of every group that one of `processes` is in, and of the
/// root.
pub(in crate::observe) fn collect(mount: &Mount, processes: &[Process], log: &mut Log) -> DevicesV1 {
    let root = Text::from("/");
    let groups = processes.iter().filter_map(|process| process.devices_v1.as_ref());
    let groups: BTreeSet<&Text> = groups.chain([&root]).collect();
    let groups =
        groups.into_iter().map(|path| DevicesV1Group { path: path.clone(), list: list(mount, path, log) });
    DevicesV1 { mount: mount.point.to_string_lossy().into_owned(), groups: groups.collect() }
}

/// A process's v1 path as seen below the mount; one that lies outside begins
/// with `/..`.
pub(in crate::observe) fn group(mount: &Mount, path: &[u8]) -> Text {
    match mount.inside(path) {
        Some(inside) => inside.into(),
        None if is_outside(path) => path.into(),
        None => [b"/..", path].concat().into(),
    }
}

/// The group of a process whose path the kernel does not show in full: one of which
/// nothing is known.
pub(in crate::observe) fn unknown() -> Text {
    b"/..".as_slice().into()
}

fn is_outside(path: &[u8]) -> bool {
    path == b"/.." || path.starts_with(b"/../")
}

fn list(mount: &Mount, path: &Text, log: &mut Log) -> Answer<Vec<String>> {
    if log.out_of_time("reading v1 device lists") {
        return Answer::Missing("the time limit was reached".to_owned());
    }
    if is_outside(path.as_bytes()) {
        let why = "it lies outside the cgroup namespace or mount gpumap runs in";
        log.add(ProblemCode::DevicesV1, path.lossy(), why, "run gpumap in the node's cgroup namespace");
        return Answer::Missing(why.to_owned());
    }
    let mut place = PathBuf::from(&mount.point);
    place.push(OsStr::from_bytes(CgroupPath::new(path).relative()));
    let mut text = Vec::new();
    match Dir::open(&place).and_then(|dir| dir.read_into(LIST, &mut text, LIST_LIMIT)) {
        Ok(()) => Answer::Known(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
        Err(errno) => {
            log.add(
                ProblemCode::DevicesV1,
                place.join("devices.list").to_string_lossy(),
                errno.to_string(),
                needs(errno),
            );
            Answer::Missing(errno.to_string())
        }
    }
}

fn needs(errno: Errno) -> String {
    match errno {
        Errno::EACCES | Errno::EPERM => missing(&[Capability::DacReadSearch]),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a group outside the mount is never read from inside it.
    #[test]
    fn groups() {
        let part = Mount { id: 1, point: "/proc".into(), root: b"/docker/x".to_vec() };
        assert_eq!(group(&part, b"/docker/x/a").as_bytes(), b"/a");
        let mut log = Log::default();
        for path in [&b"/other"[..], b"/..", b"/../a"] {
            let group = group(&part, path);
            assert!(is_outside(group.as_bytes()), "{group:?}");
            assert!(list(&part, &group, &mut log).missing().is_some());
        }
        assert_eq!(log.problems.len(), 3);
    }
}
