//! Devices that units of systemd and files of container runtimes name, and names of pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, ConfigFile, Text};
use crate::model::{DeviceType, Time};

/// A unit that has a cgroup, with the lines of its files that decide on
/// devices: what systemd will apply at the next daemon-reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unit {
    /// Its name, such as `docker-4f0c.scope`.
    pub name: Text,
    /// Its cgroup, relative to the cgroup root, with a leading `/`.
    pub cgroup: Text,
    /// Its unit file; null if there is none, as for slices without a file and units
    /// that are gone.
    #[serde(default)]
    pub fragment: Option<String>,
    /// The files that have such lines, in the order in which systemd applies
    /// them: the unit file, then the drop-ins. All other lines are left out:
    /// unit files hold secrets.
    #[serde(default)]
    pub files: Vec<ConfigFile>,
    /// When the newest of the files with `DeviceAllow=` or `DevicePolicy=` was changed,
    /// RFC 3339; null where none has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_changed_at: Option<Time>,
    /// The devices that the paths in these lines lead to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NamedNode>,
    /// The device programs that these lines name (`BPFProgram=device:PATH`), as they are
    /// pinned now: systemd attaches them anew at each daemon-reload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<PinnedProgram>,
    /// Files that decide and could not be read, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A path of a bpf file system at which a unit names a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedProgram {
    /// The path.
    pub path: String,
    /// The id of the program there; `Known(null)` if nothing is there.
    pub program: Answer<Option<u32>>,
}

/// A path that a unit names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedNode {
    /// The path.
    pub path: String,
    /// The device that it leads to, links followed; `Known(null)` if there is none.
    pub device: Answer<Option<DeviceNumber>>,
}

/// The number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DeviceNumber {
    /// `char` or `block`.
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The name of a pod, from the directory of its logs, which the kubelet makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodName {
    /// Its uid, as in the path of its cgroup.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The devices that a file of a container's runtime lists. The rest of these files is
/// left out: they hold environments, and so secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// The software whose file it is: `runc`, `crun`, or `an OCI bundle`.
    pub runtime: String,
    /// The file.
    pub path: String,
    /// The cgroup that it names for the container.
    pub cgroup: Text,
    /// When the file was last written, RFC 3339.
    pub modified_at: Option<Time>,
    /// Its list, in order.
    pub devices: Answer<Vec<ContainerDevice>>,
}

/// One rule of such a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerDevice {
    /// Whether it allows or denies.
    pub allow: bool,
    /// The kind of device; null for both.
    #[serde(rename = "type")]
    pub kind: Option<DeviceType>,
    /// Major number; null for all.
    pub major: Option<u32>,
    /// Minor number; null for all.
    pub minor: Option<u32>,
    /// Letters out of `rwm`.
    pub access: String,
}
