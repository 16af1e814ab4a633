//! Reads from files of container runtimes which devices containers were given. Only
//! files in the usual places, which belong to root and which nobody else can write,
//! count; of their contents nothing but cgroup and devices is kept.

use std::collections::BTreeSet;
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::Value;

use super::options::Options;
use super::problems::{Log, errno_of};
use crate::model::{CgroupPath, DeviceType, Owner, ProblemCode, Time};
use crate::observation::{Answer, Cgroup, Container, ContainerDevice, PodName};
use crate::owner::of_path;
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Files that are read.
const FILE_LIMIT: usize = 4096;
/// Bytes of one file; configurations of containers have some ten thousand.
const SIZE_LIMIT: u64 = 4 << 20;
/// `libc::O_NOFOLLOW` and `libc::O_NONBLOCK`: neither links nor FIFOs.
const FLAGS: i32 = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;

/// A usual place: directories, where `*` is any name, and the file there.
struct Usual {
    directories: &'static str,
    file: &'static str,
    read: fn(&Path, &Value, &mut Log) -> Option<Found>,
    runtime: &'static str,
}

/// The cgroup that a file names, and its list.
struct Found {
    cgroup: Vec<u8>,
    devices: Answer<Vec<ContainerDevice>>,
}

const USUAL: [Usual; 7] = [
    Usual { directories: "run/runc/*", file: "state.json", read: runc, runtime: "runc" },
    Usual { directories: "run/docker/runtime-runc/*/*", file: "state.json", read: runc, runtime: "runc" },
    Usual { directories: "run/containerd/runc/*/*", file: "state.json", read: runc, runtime: "runc" },
    Usual { directories: "run/crun/*", file: "status", read: crun, runtime: "crun" },
    Usual {
        directories: "run/containerd/io.containerd.runtime.v2.task/*/*",
        file: "config.json",
        read: bundle,
        runtime: "an OCI bundle",
    },
    Usual {
        directories: "run/containers/storage/overlay-containers/*/userdata",
        file: "config.json",
        read: bundle,
        runtime: "an OCI bundle",
    },
    Usual {
        directories: "var/lib/containers/storage/overlay-containers/*/userdata",
        file: "config.json",
        read: bundle,
        runtime: "an OCI bundle",
    },
];

/// What files say about the containers whose cgroups were seen. A file that is there and
/// cannot be read is a problem.
pub(super) fn collect(
    options: &Options,
    cgroup_root: &str,
    seen: &[&Cgroup],
    log: &mut Log,
) -> Vec<Container> {
    let mut left = FILE_LIMIT;
    let mut containers = Vec::new();
    for usual in &USUAL {
        for directory in directories(&options.unit_root, usual.directories, log) {
            let Some(rest) = left.checked_sub(1) else {
                let why = format!("only {FILE_LIMIT} were read");
                log.once(ProblemCode::TooMany, "files of container runtimes", why, "");
                return containers;
            };
            left = rest;
            let path = directory.join(usual.file);
            let Some((text, modified_at)) = trusted(&path, log) else { continue };
            let Some(text) = json(&path, &text, log) else { continue };
            let Some(found) = (usual.read)(&directory, &text, log) else { continue };
            let cgroup = relative(&found.cgroup, cgroup_root);
            if seen.iter().any(|seen| CgroupPath::new(&seen.path) == CgroupPath::new(&cgroup)) {
                containers.push(Container {
                    runtime: usual.runtime.to_owned(),
                    path: path.to_string_lossy().into_owned(),
                    cgroup: cgroup.into(),
                    modified_at,
                    devices: found.devices,
                });
            }
        }
    }
    containers
}

/// Where the kubelet makes a directory for the logs of each pod
/// (`BuildPodLogsDirectory`, pkg/kubelet/kuberuntime/helpers.go of Kubernetes).
const PODS: &str = "var/log/pods";

/// The names of the pods whose cgroups were seen, from directories
/// `NAMESPACE_NAME_UID` that root made in one where nobody else can make any.
pub(super) fn pods(options: &Options, seen: &[&Cgroup], log: &mut Log) -> Vec<PodName> {
    let has_pod = |cgroup: &&&Cgroup| cgroup.path.as_bytes().windows(3).any(|part| part == b"pod");
    let owners = seen.iter().filter(has_pod).filter_map(|cgroup| of_path(cgroup.path.as_bytes()));
    let uids: BTreeSet<String> = owners.filter_map(|owner| uid_of(&owner)).collect();
    if uids.is_empty() {
        return Vec::new();
    }
    let path = options.unit_root.join(PODS);
    let is_roots =
        |facts: &Metadata| facts.uid() == 0 && facts.mode() & 0o022 == 0 && facts.file_type().is_dir();
    let facts = again(|| path.symlink_metadata()).map_err(|error| errno_of(&error));
    if !log.there(path.to_string_lossy(), facts).as_ref().is_some_and(is_roots) {
        return Vec::new();
    }
    let found = log.there(path.to_string_lossy(), entries(&path)).unwrap_or_default();
    found.iter().filter_map(|directory| pod_name(directory)).filter(|pod| uids.contains(&pod.uid)).collect()
}

/// The uid of the pod that an owner is, or is in.
fn uid_of(owner: &Owner) -> Option<String> {
    owner.pod.clone().or_else(|| uid_of(owner.outer.as_deref()?))
}

/// Names of Kubernetes have no `_`.
fn pod_name(directory: &Path) -> Option<PodName> {
    let mut parts = directory.file_name()?.to_str()?.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        (1..=253).contains(&text.len()) && text.bytes().all(plain)
    };
    let good = parts.next().is_none() && is_name(namespace) && is_name(name);
    good.then(|| PodName { uid: uid.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
}

/// The directories that a pattern means.
fn directories(root: &Path, pattern: &str, log: &mut Log) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        found = if part == "*" {
            found.iter().flat_map(|dir| log.there(dir.to_string_lossy(), entries(dir))).flatten().collect()
        } else {
            found.into_iter().map(|dir| dir.join(part)).collect()
        };
    }
    found
}

/// What is in a directory, as far as gpumap reads it; a file has nothing in it.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, Errno> {
    let mut found = Vec::new();
    let listed = Dir::open(dir).and_then(|open| {
        open.names(|name| {
            found.push(dir.join(name));
            found.len() <= FILE_LIMIT
        })
    });
    match listed {
        Ok(()) | Err(Errno::ENOTDIR) => Ok(found),
        Err(errno) => Err(errno),
    }
}

/// The contents of a file that only root can have written, and when.
fn trusted(path: &Path, log: &mut Log) -> Option<(Vec<u8>, Option<Time>)> {
    let read = || -> io::Result<Option<(Vec<u8>, Option<Time>)>> {
        let file = again(|| OpenOptions::new().read(true).custom_flags(FLAGS).open(path))?;
        let facts = again(|| file.metadata())?;
        let is_roots = facts.uid() == 0 && facts.mode() & 0o022 == 0;
        if !facts.file_type().is_file() || !is_roots {
            return Ok(None);
        }
        if facts.len() > SIZE_LIMIT {
            return Err(Errno::EFBIG.into());
        }
        let (mut text, mut file) = (Vec::new(), file.take(SIZE_LIMIT));
        again(|| file.read_to_end(&mut text))?;
        // A time that no calendar has is none.
        let modified = Timestamp::from_second(facts.mtime()).map(Time::from);
        // It is unknown then.
        Ok(Some((text, modified.ok())))
    };
    match read().map_err(|error| errno_of(&error)) {
        // No runtime writes a link, a FIFO, or a file in the place of a directory.
        Err(Errno::ELOOP | Errno::ENXIO | Errno::ENOTDIR) => None,
        read => log.there(path.to_string_lossy(), read).flatten(),
    }
}

/// The contents of a file, which are JSON; others are a problem.
fn json(path: &Path, text: &[u8], log: &mut Log) -> Option<Value> {
    serde_json::from_slice(text)
        .map_err(|error| log.add(ProblemCode::Unreadable, path.to_string_lossy(), error.to_string(), ""))
        // The problem is in the log.
        .ok()
}

/// runc's state: its own form of the list, defaults included, and the cgroup's path
/// in the file system.
fn runc(_: &Path, state: &Value, _: &mut Log) -> Option<Found> {
    #[derive(Deserialize)]
    struct Device {
        #[serde(rename = "type")]
        kind: u32,
        major: i64,
        minor: i64,
        permissions: String,
        allow: bool,
    }
    // The key of cgroup2 is the empty name.
    let cgroup = state.get("cgroup_paths")?.get("")?.as_str()?.as_bytes().to_vec();
    let list = state.pointer("/config/cgroups/devices")?;
    let devices = Vec::<Device>::deserialize(list).map_err(|error| error.to_string()).and_then(|devices| {
        let device = |device: Device| {
            let kind = match char::from_u32(device.kind) {
                Some('a') => None,
                Some('b') => Some(DeviceType::Block),
                Some('c') => Some(DeviceType::Char),
                _ => return Err(format!("a device of type {}", device.kind)),
            };
            let (major, minor) = (number(device.major)?, number(device.minor)?);
            Ok(ContainerDevice { allow: device.allow, kind, major, minor, access: device.permissions })
        };
        devices.into_iter().map(device).collect()
    });
    Some(Found { cgroup, devices: answer(devices) })
}

/// crun's status names the cgroup; the list is in the bundle's configuration, a copy of
/// which is beside it.
fn crun(directory: &Path, status: &Value, log: &mut Log) -> Option<Found> {
    let cgroup = status.get("cgroup-path")?.as_str()?.as_bytes().to_vec();
    let path = directory.join("config.json");
    let config = json(&path, &trusted(&path, log)?.0, log)?;
    Some(Found { cgroup, devices: answer(oci_devices(&config)) })
}

/// A bundle's configuration, as the runtime specification describes it.
fn bundle(_: &Path, config: &Value, _: &mut Log) -> Option<Found> {
    let named = config.pointer("/linux/cgroupsPath")?.as_str()?;
    Some(Found { cgroup: oci_cgroup(named)?, devices: answer(oci_devices(config)) })
}

fn answer(devices: Result<Vec<ContainerDevice>, String>) -> Answer<Vec<ContainerDevice>> {
    match devices {
        Ok(devices) => Answer::Known(devices),
        Err(why) => Answer::Missing(why),
    }
}

/// `linux.resources.devices` of the runtime specification. A list that is not there
/// restricts nothing.
fn oci_devices(config: &Value) -> Result<Vec<ContainerDevice>, String> {
    #[derive(Deserialize)]
    struct Device {
        allow: bool,
        #[serde(rename = "type")]
        kind: Option<String>,
        major: Option<i64>,
        minor: Option<i64>,
        access: Option<String>,
    }
    let list = config.pointer("/linux/resources/devices").ok_or("it has no list of devices")?;
    let devices = Vec::<Device>::deserialize(list).map_err(|error| error.to_string())?;
    let device = |device: Device| {
        let kind = match device.kind.as_deref() {
            None | Some("" | "a") => None,
            Some("b") => Some(DeviceType::Block),
            Some("c" | "u") => Some(DeviceType::Char),
            Some(other) => return Err(format!("a device of type {other:?}")),
        };
        let of = |value: Option<i64>| value.map_or(Ok(None), number);
        let (major, minor) = (of(device.major)?, of(device.minor)?);
        let access = device.access.unwrap_or_else(|| "rwm".to_owned());
        Ok(ContainerDevice { allow: device.allow, kind, major, minor, access })
    };
    devices.into_iter().map(device).collect()
}

/// -1 is any number.
fn number(number: i64) -> Result<Option<u32>, String> {
    match number {
        -1 => Ok(None),
        other => u32::try_from(other).map(Some).map_err(|_| format!("the device number {other}")),
    }
}

/// The cgroup of `linux.cgroupsPath`: a path, or `SLICE:PREFIX:NAME` for a scope of
/// systemd's.
fn oci_cgroup(named: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = named.split(':').collect();
    let [slice, prefix, name] = parts.as_slice() else {
        return named.starts_with('/').then(|| named.as_bytes().to_vec());
    };
    let stem = slice.strip_suffix(".slice")?;
    let mut path = String::new();
    // The slice a-b.slice is in a.slice (systemd.slice(5)).
    for end in stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]) {
        path.push_str(&format!("/{}.slice", stem.get(..end)?));
    }
    let scope = if prefix.is_empty() { (*name).to_owned() } else { format!("{prefix}-{name}") };
    let ending = if name.ends_with(".slice") { "" } else { ".scope" };
    Some(format!("{path}/{scope}{ending}").into_bytes())
}

/// The path from the cgroup root.
fn relative(path: &[u8], cgroup_root: &str) -> Vec<u8> {
    match path.strip_prefix(cgroup_root.as_bytes()) {
        Some(rest) if rest.starts_with(b"/") => rest.to_vec(),
        _ => path.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that cgroups are found where runtimes make them.
    #[test]
    fn cgroups_of_containers() {
        for (named, expected) in [
            ("/docker/4f0c", Some("/docker/4f0c")),
            ("system.slice:docker:4f0c", Some("/system.slice/docker-4f0c.scope")),
            ("a-b.slice:crio:1", Some("/a.slice/a-b.slice/crio-1.scope")),
            ("user.slice::x", Some("/user.slice/x.scope")),
            ("relative", None),
            ("x:y:z", None),
        ] {
            let found = oci_cgroup(named);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{named}");
        }
        assert_eq!(relative(b"/sys/fs/cgroup/box", "/sys/fs/cgroup"), b"/box");
        assert_eq!(relative(b"/sys/fs/cgroups", "/sys/fs/cgroup"), b"/sys/fs/cgroups");
    }

    fn parsed(text: &str) -> Value {
        json(Path::new("/x"), text.as_bytes(), &mut Log::default()).unwrap()
    }

    /// Make sure that what is no JSON is a problem, and that a file which nobody may read
    /// is one too.
    #[test]
    fn unreadable_files() {
        let mut log = Log::default();
        assert_eq!(json(Path::new("/x"), b"", &mut log), None);
        assert_eq!(json(Path::new("/x"), br#"{"cgroup"#, &mut log), None);
        assert_eq!(log.problems.len(), 2);
        assert!(trusted(Path::new("/proc/self/mem"), &mut log).is_none());
        assert!(trusted(Path::new("/nonexistent/x"), &mut log).is_none());
        assert_eq!(log.problems.len(), 3, "{:?}", log.problems);
    }

    /// Make sure that files say what they say, and nothing where they are broken.
    #[test]
    fn files_of_runtimes() {
        let state = r#"{"cgroup_paths":{"":"/sys/fs/cgroup/box"},"config":{"cgroups":{"devices":[
            {"type":97,"major":-1,"minor":-1,"permissions":"rwm","allow":false},
            {"type":99,"major":195,"minor":0,"permissions":"rw","allow":true}]}}}"#;
        let found = runc(Path::new("/x"), &parsed(state), &mut Log::default()).unwrap();
        let devices = found.devices.known().unwrap();
        assert_eq!((devices.len(), devices[1].major, devices[1].access.as_str()), (2, Some(195), "rw"));
        let odd = state.replace("99", "7");
        assert!(runc(Path::new("/x"), &parsed(&odd), &mut Log::default()).unwrap().devices.known().is_none());
        let far = state.replace("195", "-2");
        assert!(runc(Path::new("/x"), &parsed(&far), &mut Log::default()).unwrap().devices.known().is_none());
        for broken in ["[]", "{}", r#"{"cgroup_paths":{"devices":"/x"}}"#] {
            assert!(runc(Path::new("/x"), &parsed(broken), &mut Log::default()).is_none(), "{broken}");
        }
        let config = r#"{"linux":{"cgroupsPath":"/box","resources":{"devices":[{"allow":false,"access":"rwm"},
            {"allow":true,"type":"c","major":195,"minor":0,"access":"rw"}]}}}"#;
        let found = bundle(Path::new("/x"), &parsed(config), &mut Log::default()).unwrap();
        assert_eq!(found.devices.known().unwrap().len(), 2);
        let none =
            bundle(Path::new("/x"), &parsed(r#"{"linux":{"cgroupsPath":"/box"}}"#), &mut Log::default())
                .unwrap();
        assert!(none.devices.missing().unwrap().contains("no list"));
    }
}
