//! The facts of a node as plain data, schema `gpumap.observation/1`.
//!
//! An observation is all that analysis ever sees. It holds what the kernel
//! said, not what it means: instruction bytes, map contents, attach flags,
//! the text of `/proc/driver/nvidia`. Meaning is computed later, so a saved
//! observation can be analysed again by a newer gpumap.

mod activity;
mod activity_reading;
mod activity_totals;
mod environment;
mod limits;
mod process;
mod refusals;
mod setup;
mod text;
mod unit;
mod verification;
mod vgpu;
mod weight;

use std::collections::{BTreeMap, BTreeSet};

use procfs_core::{BlockDeviceEntry, Devices, FromBufRead as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{DeviceType, MapType, ProblemCode, Time};

pub use activity::{
    Activity, ActivityLibrary, CallUnderWay, ContextSums, CopiedBytes, DURATION_CLASSES, ErrorCount,
    FIRST_DURATION_BITS, GpuApi, InterceptedCalls, LostRoom, NamedDevice, ProcessActivity, QuietProcess,
    ResolvedDevice, StreamSums, TIME_CLASSES, Uncovered,
};
pub use activity_reading::ActivityReading;
pub use activity_totals::{GpuTotals, OwnerTotals};
pub use environment::{Environment, Variable};
pub use process::{Detail, HeldDevice, Process, UnseenProcesses, User};
pub use refusals::{Refusals, RefusedDevice};
pub use setup::{
    CgroupMount, ConfigFile, OwnFile, OwnProcess, OwnerPattern, Rights, Setup, Slurm, SlurmFile, SlurmFiles,
    SlurmPlugins, SlurmSetup, Trial,
};
pub use text::{Answer, HexBytes, Text};
pub use unit::{Container, ContainerDevice, DeviceNumber, NamedNode, PinnedProgram, PodName, Unit};
pub use verification::Verification;
pub use vgpu::{
    FileFacts, JobFile, LARGEST_REGION, LibraryVariables, MappedFile, OverrideFile, Preload, RegionContents,
    SharedRegion, SparseBytes, VgpuTraces, take_regions,
};
pub use weight::Weight;

/// The schema name of the observations this version writes.
pub const SCHEMA: &str = "gpumap.observation/1";

/// Everything gpumap saw in one pass over a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// Always [`SCHEMA`] in what this version writes.
    pub schema: String,
    /// The gpumap version that looked.
    pub version: String,
    /// When it looked, RFC 3339 with zone.
    pub taken_at: Time,
    /// The node.
    pub host: Host,
    /// The cgroups that were asked for: the analysis answers for these.
    #[serde(default)]
    pub scope: Vec<Scope>,
    /// The processes that were asked for one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The cgroup that gpumap itself was in, if it is in this hierarchy. Names of
    /// the cgroups above it are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cgroup: Option<Text>,
    /// Owners that the site's configuration describes (`[[owner]]` of `/etc/gpumap.toml`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_patterns: Vec<OwnerPattern>,
    /// Cgroups in walk order, parents before children; the ancestors of every
    /// requested cgroup are included.
    #[serde(default)]
    pub cgroups: Vec<Cgroup>,
    /// Every program that is attached to one of `cgroups`, by id.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// Every map that one of `programs` uses, by id.
    #[serde(default)]
    pub maps: Vec<Map>,
    /// Processes of the requested cgroups.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// The users who have `processes`, as far as the node names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// Files that `processes` map as shared regions of HAMi-core or SoftMig.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<SharedRegion>,
    /// The v1 devices controller, where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_v1: Option<DevicesV1>,
    /// What the system says about GPUs.
    #[serde(default)]
    pub gpu_facts: GpuFacts,
    /// What Slurm's files and hooks say.
    #[serde(default, skip_serializing_if = "Slurm::is_empty")]
    pub slurm: Slurm,
    /// How the node is set up for gpumap, which `gpumap snapshot --setup` saves for
    /// `gpumap doctor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<Setup>>,
    /// What the files of systemd's units say about devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
    /// What files of container runtimes say about the devices of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// The names of pods that have cgroups here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodName>,
    /// What the kernel itself answered in some of the cgroups (`--verify`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Verification>,
    /// What processes did with GPUs, where a gpumap counts their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Box<ActivityReading>>,
    /// What the kernel refused to processes, where a gpumap sums it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusals: Option<Box<Refusals>>,
    /// What could not be seen, each with the right or setting it needs.
    #[serde(default)]
    pub errors: Vec<Problem>,
    /// Processes that may be the user's who was asked about, although their
    /// effective uid is another: one of their other uids is the user's, or the user
    /// made their user namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_users: Vec<u32>,
    /// What could not be seen and does not matter for what was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Problem>,
}

/// The node an observation was taken on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// `uname -n`.
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Where the cgroup2 hierarchy is mounted (the v1 devices hierarchy on a
    /// legacy host).
    pub cgroup_root: String,
    /// How the host mounts its cgroups.
    pub cgroup_mode: CgroupMode,
    /// The Slurm cluster that the node belongs to, in lower case (`ClusterName` in
    /// slurm.conf).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_cluster: Option<String>,
    /// When it was booted, RFC 3339 to the second (`btime` in `/proc/stat`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_time: Option<Time>,
    /// Clock ticks in a second: what start times of processes are counted in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks_per_second: Option<u64>,
    /// Whether a kernel whose release is older than 5.18 has `bpf_set_retval`, and so the
    /// newer rule for several programs: distributors port BPF back. By the kernel's types
    /// (`/sys/kernel/btf/vmlinux`); absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_retval: Option<bool>,
}

/// How a host mounts its cgroup hierarchies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CgroupMode {
    /// Nobody looked, or nothing is mounted.
    #[default]
    Unknown,
    /// cgroup2 alone.
    Unified,
    /// cgroup2 and at least one v1 controller.
    Hybrid,
    /// v1 only: no device programs are possible.
    Legacy,
}

/// One target of the question the observation was taken for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// The cgroup, relative to the cgroup root, with a leading `/`.
    pub path: Text,
    /// Whether everything below it was asked for too.
    pub recursive: bool,
}

/// One cgroup directory and what the kernel says is attached to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// Path relative to the cgroup root, with a leading `/`.
    pub path: Text,
    /// The cgroup id: the inode number of its directory.
    pub id: u64,
    /// Programs in force here, in run order, as the kernel lists them
    /// (`BPF_F_QUERY_EFFECTIVE`). `Known([])` is "no program: all allowed".
    pub effective: Answer<Vec<u32>>,
    /// Programs attached to this very cgroup.
    pub own: Answer<Attached>,
    /// Pids in `cgroup.procs`. Only for requested cgroups.
    #[serde(default)]
    pub pids: Vec<u32>,
    /// Processes in it that cannot be seen from where gpumap runs; left out where there
    /// are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenProcesses>,
    /// Uid of the directory's owner, where that is not root: who makes the
    /// names of the cgroups below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

impl Cgroup {
    /// Whether it is known to have no process of its own.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.unseen.is_none()
    }
}

/// What is attached to one cgroup directly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    /// Program ids in attach order.
    pub programs: Vec<u32>,
    /// The cgroup's attach flags: bit 0 override, bit 1 multi
    /// (`BPF_F_ALLOW_OVERRIDE`, `BPF_F_ALLOW_MULTI` in `linux/bpf.h`).
    pub flags: u32,
    /// Which of `programs` are held by a `bpf_link` (program id → link id).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<u32, u32>,
    /// Why it is not known which of `programs` are held by a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_unknown: Option<String>,
}

/// One loaded `cgroup_device` program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Kernel-wide program id.
    pub id: u32,
    /// Name that its loader gave it, at most 15 bytes, often empty.
    pub name: Text,
    /// The kernel's tag, 16 hex digits.
    pub tag: String,
    /// Whether its licence is GPL compatible; false before Linux 4.18, which does not tell.
    pub gpl_compatible: bool,
    /// When it was loaded, RFC 3339; empty if unknown.
    pub loaded_at: Time,
    /// Uid that loaded it.
    pub uid: u32,
    /// Ids of the maps it uses.
    #[serde(default)]
    pub map_ids: Vec<u32>,
    /// The translated (xlated) instructions, 8 bytes each.
    pub xlated: Answer<HexBytes>,
    /// Kernel symbols of the `imm` values of call instructions, as far as they could
    /// be resolved; empty if kallsyms is hidden.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<i32, String>,
    /// Ids of the programs (type `ext`) that run in the place of functions of
    /// this one (`freplace`), which the instructions do not show.
    #[serde(default, skip_serializing_if = "is_none_at_all")]
    pub replaced_by: Answer<Vec<u32>>,
}

fn is_none_at_all(ids: &Answer<Vec<u32>>) -> bool {
    ids.known().is_some_and(Vec::is_empty)
}

/// One BPF map and its contents at the time of the observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    /// Kernel-wide map id.
    pub id: u32,
    /// Map type as bpftool names it (`hash`, `array`, `lru_hash`, …).
    #[serde(rename = "type")]
    pub kind: MapType,
    /// Name that its creator gave it.
    pub name: Text,
    /// Key size in bytes.
    pub key_size: u32,
    /// Value size in bytes (one CPU's value for per-CPU maps).
    pub value_size: u32,
    /// Capacity in entries.
    pub max_entries: u32,
    /// `BPF_F_*` creation flags.
    pub flags: u32,
    /// Whether the map is frozen, so that its contents cannot change from
    /// user space.
    #[serde(default)]
    pub frozen: bool,
    /// Bytes of every value that the kernel does not show to user space but
    /// fills with zeros or pointers to nothing: locks, timers, kernel pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<HiddenBytes>,
    /// The entries, complete, in the kernel's order; or why they are missing.
    pub entries: Answer<Vec<MapEntry>>,
    /// The programs that are its entries, each once, if it is a map for tail calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
}

impl Map {
    /// Whether its entries are maps.
    pub fn holds_maps(&self) -> bool {
        matches!(self.kind, MapType::ArrayOfMaps | MapType::HashOfMaps)
    }

    /// Ids of the maps that a program reaches through this one: those inside, and those
    /// of the programs inside.
    pub fn inner_ids(&self) -> impl Iterator<Item = u32> {
        let entries = if self.holds_maps() { self.entries.known() } else { None };
        let maps = entries.into_iter().flatten().filter_map(MapEntry::inner_id);
        maps.chain(self.programs.iter().flat_map(|program| program.map_ids.iter().copied()))
    }

    /// Ids of the programs inside, each once, if its entries are programs.
    pub fn program_ids(&self) -> BTreeSet<u32> {
        let entries = if self.kind == MapType::ProgArray { self.entries.known() } else { None };
        entries.into_iter().flatten().filter_map(MapEntry::inner_id).collect()
    }
}

impl MapEntry {
    /// The map or program that is the value of an entry of a map of maps or programs.
    pub fn inner_id(&self) -> Option<u32> {
        self.value.0.as_slice().try_into().ok().map(u32::from_le_bytes)
    }
}

/// The maps with these ids and those that a program reaches through them.
pub fn with_inner<'m>(
    ids: impl IntoIterator<Item = u32>,
    map: impl Fn(u32) -> Option<&'m Map>,
) -> BTreeSet<u32> {
    let (mut all, mut left) = (BTreeSet::new(), ids.into_iter().collect::<Vec<u32>>());
    while let Some(id) = left.pop() {
        if all.insert(id) {
            left.extend(map(id).into_iter().flat_map(Map::inner_ids));
        }
    }
    all
}

/// A part of a map's values that the kernel does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenBytes {
    /// The first byte, counted from the start of the value.
    pub first: u32,
    /// How many bytes.
    pub size: u32,
}

impl HiddenBytes {
    /// Whether `size` bytes from `start` on touch these.
    pub fn touches(&self, start: usize, size: usize) -> bool {
        let (first, end) = (self.first as usize, (self.first as usize).saturating_add(self.size as usize));
        start < end && first < start.saturating_add(size)
    }
}

/// One entry of a map, raw bytes in host order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MapEntry {
    /// The key, `key_size` bytes.
    pub key: HexBytes,
    /// The value; for per-CPU maps the values of all CPUs in a row, each
    /// rounded up to 8 bytes.
    pub value: HexBytes,
}

/// The v1 devices controller of a hybrid or legacy host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DevicesV1 {
    /// Where the controller is mounted.
    pub mount: String,
    /// `devices.list` of every v1 cgroup that a process of the observation is
    /// in.
    pub groups: Vec<DevicesV1Group>,
}

/// One v1 device cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DevicesV1Group {
    /// Path in the v1 hierarchy, with a leading `/`.
    pub path: Text,
    /// The lines of `devices.list`. Beware: the kernel prints `a *:* rwm` for
    /// every group whose default is allow and hides its denials.
    pub list: Answer<Vec<String>>,
}

/// What the system says about GPUs, unchanged.
///
/// Paths are as on the node (without the `--gpu-root` prefix).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuFacts {
    /// Small text files: `/proc/devices`, `/proc/driver/nvidia/…`, KFD
    /// topology, PCI attributes in sysfs.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Symbolic links of sysfs, as they read.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// Device nodes under `/dev` that belong to a GPU driver.
    #[serde(default)]
    pub nodes: Vec<DeviceNode>,
    /// What `nvidia-smi -L` printed, in the file that the administrator names
    /// (`--mig-list`, `[mig]` of `/etc/gpumap.toml`): it has the UUIDs of MIG instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_list: Option<String>,
    /// Whether some of this could not be read, so that there may be GPUs which it does not
    /// show.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
}

impl GpuFacts {
    /// The release of the NVIDIA driver, such as `580.65.06`: the first word that is a
    /// version in the line of the kernel module. `None` without such a driver, or where
    /// its file does not say it.
    pub fn nvidia_release(&self) -> Option<&str> {
        let text = self.files.get("/proc/driver/nvidia/version")?;
        let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
        let is_version = |word: &&str| {
            word.contains('.')
                && word.starts_with(|first: char| first.is_ascii_digit())
                && word.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
        };
        line.split_whitespace().find(is_version)
    }

    /// The drivers of this boot with the major numbers that they registered, in the order
    /// of `/proc/devices`; `None` where the file was not seen or is another one.
    pub fn drivers(&self) -> Option<Vec<RegisteredDriver>> {
        let text = self.files.get("/proc/devices")?;
        let devices = Devices::from_buf_read(text.as_bytes()).ok()?;
        let driver = |kind, major, name| RegisteredDriver { kind, major, name };
        let chars = devices.char_devices.into_iter().map(|it| driver(DeviceType::Char, it.major, it.name));
        // No major number is negative.
        let block = |it: BlockDeviceEntry| Some((u32::try_from(it.major).ok()?, it.name));
        let blocks = devices.block_devices.into_iter().filter_map(block);
        Some(chars.chain(blocks.map(|(major, name)| driver(DeviceType::Block, major, name))).collect())
    }
}

/// A driver in `/proc/devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredDriver {
    /// What kind of devices it has.
    pub kind: DeviceType,
    /// Their major number; several drivers can share one.
    pub major: u32,
    /// Its name.
    pub name: String,
}

/// One device node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceNode {
    /// Path, such as `/dev/nvidia0`.
    pub path: String,
    /// `char` or `block`.
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Something that could not be seen or done, and what would help.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Stable kebab-case code, such as `cgroup-gone` or `no-right`.
    #[schemars(with = "String")]
    pub code: ProblemCode,
    /// The thing it is about: a path, `program 17`, `map 4`.
    pub what: String,
    /// What happened, one clause.
    pub why: String,
    /// What would make it work (a capability, a sysctl, a mount); empty if
    /// nothing would.
    pub needs: String,
}
