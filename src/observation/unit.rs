//! What the files of systemd's units say about devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, ConfigFile, Text};
use crate::model::DeviceType;

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
    pub devices_changed_at: Option<String>,
    /// The devices that the paths in these lines lead to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NamedNode>,
    /// Files that decide and could not be read, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
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
