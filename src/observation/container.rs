//! What files of container runtimes say about containers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, Text};
use crate::model::DeviceType;

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
    pub modified_at: Option<String>,
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
