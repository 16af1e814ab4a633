//! How the node is set up: the facts that `gpumap doctor` judges, and Slurm's files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, Environment, Text};
use crate::model::{EngineTask, Time};

/// Owners of cgroups that the site's configuration describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerPattern {
    /// Pattern of the path of their cgroups: `*` for any part of a name, and `{job}`,
    /// `{name}`, `{user}`, `{uid}`, `{step}`, `{task}` for what a part of it says.
    pub cgroup: String,
    /// Their kind.
    pub kind: String,
}

/// The setup of a node. No name of a user, job or process is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setup {
    /// What gpumap itself may do.
    pub rights: Rights,
    /// Small files of `/proc/sys`, `/sys/kernel` and `/sys/module` as they read,
    /// by path. Files that do not exist are left out.
    #[serde(default)]
    pub settings: BTreeMap<String, Answer<String>>,
    /// Size in bytes of the kernel's description of its types (BTF).
    pub btf: Answer<u64>,
    /// Whether the kernel shows the addresses of its functions.
    pub symbols: Answer<bool>,
    /// Whether the kernel answers which programs are attached to the cgroup root.
    pub queries: Answer<()>,
    /// Ways of looking that were tried.
    #[serde(default)]
    pub trials: Vec<Trial>,
    /// Where the cgroup hierarchy that gpumap uses is mounted.
    pub hierarchy: Answer<String>,
    /// All mounts of cgroup2, in mount order.
    #[serde(default)]
    pub cgroup2: Vec<CgroupMount>,
    /// Whether that hierarchy is seen from its very root; null where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_hierarchy: Option<bool>,
    /// Whether cgroup2 is in use although it is not mounted where gpumap looks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hides_cgroup2: bool,
    /// Where the v1 devices controller is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_v1: Option<String>,
    /// The `hidepid` option of `/proc`, if it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidepid: Option<String>,
    /// Why it is not known whether that option is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidepid_unknown: Option<String>,
    /// Whether gpumap is in the group that `hidepid` does not concern (`gid`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidepid_exempt: bool,
    /// Files of drivers' libraries where the dynamic linker looks for them.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Why there may be more of them: a place that could not be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libraries_unknown: Option<String>,
    /// What of Slurm's configuration concerns GPUs.
    #[serde(default)]
    pub slurm: SlurmSetup,
    /// Known programs that run: `nvidia-persistenced` and agents that detach
    /// device programs, by the names of their processes.
    #[serde(default)]
    pub software: Answer<Vec<String>>,
    /// Whether the kernel takes its clock for synchronised (adjtimex(2)).
    pub clock_synchronized: Answer<bool>,
    /// The file of this gpumap.
    pub own_file: Answer<OwnFile>,
}

/// The rights of the process that looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rights {
    /// Effective uid.
    pub uid: u32,
    /// Names of the effective capabilities that gpumap has a use for.
    pub capabilities: Answer<Vec<String>>,
    /// Namespaces (`user`, `cgroup`, `pid`) other than those of the node.
    #[serde(default)]
    pub foreign_namespaces: Vec<String>,
    /// Why these are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_unknown: Option<String>,
    /// Whether a seccomp filter is in force.
    #[serde(default)]
    pub seccomp: bool,
}

/// A way of looking that was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// What is looked at.
    pub what: EngineTask,
    /// The engine in use; null where nothing works.
    pub engine: Option<String>,
    /// Why a better engine does not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A mount of cgroup2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupMount {
    /// Where.
    pub point: String,
    /// Which directory of the hierarchy is mounted there.
    pub root: String,
    /// Whether another mount hides it.
    pub hidden: bool,
}

/// Slurm's files on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlurmSetup {
    /// `slurm.conf`: the values of `clustername`, `taskplugin`, `grestypes` and
    /// `plugindir`. In all three files `include` names an included file that was not
    /// read, and `broken` is the number of a line that Slurm refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_conf: Option<SlurmFile>,
    /// `cgroup.conf`: the values of `constraindevices` and `cgroupplugin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_conf: Option<SlurmFile>,
    /// `gres.conf`: the values of `name`, `nodename` and `autodetect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_conf: Option<SlurmFile>,
    /// The directories with plugins of Slurm: those that `slurm.conf` names, or else
    /// the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<SlurmPlugins>,
}

/// A directory with plugins of Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlurmPlugins {
    /// Where it is.
    pub directory: String,
    /// The version that its plugins say they are of, such as `22.05.8`. Slurm's daemons
    /// load plugins of their own version alone.
    pub version: Answer<String>,
}

/// A configuration file of Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlurmFile {
    /// Where it is.
    pub path: String,
    /// Keys in lower case with their values in the order of the file; or why it
    /// could not be read.
    pub values: Answer<Vec<(String, String)>>,
}

impl SlurmFile {
    /// The last value of a key, as Slurm takes it.
    pub fn value(&self, key: &str) -> Option<&str> {
        let values = self.values.known()?;
        values.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// The file of the gpumap that looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnFile {
    /// Its path.
    pub path: String,
    /// Owner.
    pub uid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Whether the file was removed or replaced since this gpumap started.
    pub replaced: bool,
    /// The nearest directory above it in which somebody else than root and the owner of
    /// gpumap's process may replace what leads to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_directory: Option<String>,
    /// The file that the name `gpumap` stands for by `PATH`, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_finds: Option<String>,
}

/// Slurm's files and hook environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slurm {
    /// The node's `gres.conf`, which decides what Slurm's GPU numbers mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_conf: Option<ConfigFile>,
    /// The directories that were looked in, where none was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looked_in: Vec<String>,
    /// When that file was last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_conf_modified_at: Option<Time>,
    /// The environment of gpumap itself, if it runs in a Prolog or Epilog
    /// (`--from-env`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Environment>,
}

/// A configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// Where it was found.
    pub path: String,
    /// What it says.
    pub text: Text,
}

impl Slurm {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
