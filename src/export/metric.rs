//! What a metric is, and every one that gpumap exports: the manual page gpumap-export(1)
//! lists them from here.

use crate::model::InOrder as _;

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only grows as long as gpumap runs; its name ends in `_total`.
    Counter,
    /// Facts that are labels, with the value 1; its name ends in `_info`.
    Info,
}

/// A metric. Its name and its labels are a contract: dashboards and rules of sites
/// rest on them.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as samples have it.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: MetricKind,
    /// What it says, without a full stop.
    pub help: &'static str,
    /// The names of its labels. A label whose value is empty is left out of a sample:
    /// to Prometheus both are the same.
    pub labels: &'static [&'static str],
}

/// A metric with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The metric.
    pub metric: &'static Metric,
    /// Its samples; no two have the same labels.
    pub samples: Vec<Sample>,
}

/// One sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The values of the metric's labels, in their order: plain text without control
    /// characters.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

/// Characters of a label's value. Names of directories, which most values come from,
/// have at most 255 bytes.
const LONGEST: usize = 256;

impl Family {
    /// The family of one value without labels.
    pub(super) fn one(metric: &'static Metric, value: f64) -> Self {
        Self::of(metric, [(Vec::new(), value)])
    }

    /// The family of these samples. Of samples with the same labels the first is
    /// kept: Prometheus would refuse all of them.
    pub(super) fn of(metric: &'static Metric, samples: impl IntoIterator<Item = (Vec<String>, f64)>) -> Self {
        let plain = |(labels, value): (Vec<String>, f64)| Sample {
            labels: labels.iter().map(|value| plain(value)).collect(),
            value,
        };
        let mut samples: Vec<Sample> = samples.into_iter().map(plain).collect();
        samples.order_by(|one, other| one.labels.cmp(&other.labels));
        samples.dedup_by(|one, other| one.labels == other.labels);
        Self { metric, samples }
    }

    /// A gauge that is 1 for each of these label values.
    pub(super) fn ones(metric: &'static Metric, labels: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self::of(metric, labels.into_iter().map(|labels| (labels, 1.0)))
    }
}

/// Text as a label's value: short, with escapes for whatever does not show itself.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(LONGEST) {
        match c {
            ' ' => out.push(c),
            c if c.is_ascii_graphic() || c.is_alphanumeric() => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// A count as a value; exact below 2^53, which no count here reaches.
#[expect(clippy::cast_precision_loss, reason = "no count here reaches 2^53")]
pub(super) fn count(count: u64) -> f64 {
    count as f64
}

/// Defines the metrics and the list of all of them.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: &Metric = &Metric {
            name: $name,
            kind: MetricKind::$kind,
            help: $help,
            labels: &[$($label),*],
        };)*
        /// Every metric, in the order of the output.
        pub const CATALOGUE: &[&Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD = Info "gpumap_build_info" ["version"]
        "The gpumap that looked";
    NODE = Info "gpumap_node_info" ["kernel", "cgroup_mode"]
        "The node that it looked at";
    OBSERVED = Gauge "gpumap_observation_timestamp_seconds" []
        "When the facts were observed, in seconds since 1970";
    DURATION = Gauge "gpumap_observation_duration_seconds" []
        "How long it took to observe the facts and to analyse them";
    COMPLETE = Gauge "gpumap_complete" []
        "1 if all could be seen and every verdict is known, else 0";
    ERRORS = Gauge "gpumap_errors" ["code"]
        "Things that could not be seen, by the code that gpumap's JSON has";
    GPUS = Gauge "gpumap_gpus" []
        "GPUs of the node";
    GPU = Info "gpumap_gpu_info" ["UUID", "vendor", "model", "pci", "minor", "nvml_index", "slurm_index", "numa_node"]
        "A GPU in every numbering; a number that is not known is left out";
    INSTANCE = Info "gpumap_gpu_instance_info" ["UUID", "GPU_I_ID"]
        "A GPU instance (MIG) of a GPU";
    OWNERS = Gauge "gpumap_owners" []
        "Jobs, pods, containers, virtual machines, units and sessions of the node";
    OWNERS_LIMIT = Gauge "gpumap_owners_limit" []
        "How many of them have samples of their own at most";
    OWNERS_LEFT_OUT = Gauge "gpumap_owners_left_out" []
        "How many of them have none because of that";
    OWNER = Info "gpumap_owner_info" ["kind", "jobid", "name", "user", "namespace", "pod"]
        "Whose an owner is: the users of its processes, and of a pod the namespace and the name that kubelet gave it";
    PROCESSES = Gauge "gpumap_owner_processes" ["kind", "jobid", "name"]
        "Processes of an owner, without those of the scheduler";
    SHARES = Gauge "gpumap_owner_shares" ["mode", "kind", "jobid", "name"]
        "1 where an owner shares GPUs on purpose, by mode: mig, shard, mps";
    ALLOCATED = Gauge "gpumap_gpu_allocated" ["UUID", "GPU_I_ID", "source", "kind", "jobid", "name"]
        "1 for each GPU that an owner was allocated; the source claimed is its own environment, which it can fake";
    ALLOWED = Gauge "gpumap_gpu_allowed" ["UUID", "GPU_I_ID", "kind", "jobid", "name"]
        "1 for each GPU that the processes of an owner may open";
    ASKED = Gauge "gpumap_gpu_asked" ["UUID", "GPU_I_ID", "kind", "jobid", "name"]
        "1 for each GPU that the processes of an owner ask for in their environments";
    HELD = Gauge "gpumap_gpu_held" ["UUID", "GPU_I_ID", "kind", "jobid", "name"]
        "1 for each GPU that the processes of an owner have open";
    USED = Gauge "gpumap_gpu_used" ["UUID", "GPU_I_ID", "kind", "jobid", "name"]
        "1 for each GPU that the processes of an owner handed work to, where a gpumap activity counts that";
    HELD_DENIED = Gauge "gpumap_gpu_held_denied" ["UUID", "kind", "jobid", "name"]
        "1 for each GPU that an owner has open although its rules deny it now";
    GPU_UNKNOWN = Gauge "gpumap_gpu_unknown" ["set", "UUID", "kind", "jobid", "name"]
        "1 for each GPU of which it is not known whether it is in a set of an owner";
    SET_UNKNOWN = Gauge "gpumap_owner_unknown" ["set", "kind", "jobid", "name"]
        "1 where nothing is known of a set of an owner; allocations are expected of jobs, pods and containers alone";
    FINDINGS = Gauge "gpumap_findings" ["id", "severity"]
        "Findings of gpumap audit; 0 for those that were looked for and not found";
    FINDINGS_IGNORED = Gauge "gpumap_findings_ignored" []
        "Findings that the configuration accepts, which the other metric does not count";
    ACTIVITY_READ = Gauge "gpumap_activity_timestamp_seconds" []
        "When the counts of calls were read, in seconds since 1970";
    ACTIVITY_LOST = Gauge "gpumap_activity_uncounted_calls" []
        "Calls that could not be counted because a table of the kernel was full";
    ACTIVITY_PROCESSES = Gauge "gpumap_activity_processes" ["kind", "jobid", "name"]
        "Processes of an owner that made calls of a GPU's driver";
    ACTIVITY_IDLE = Gauge "gpumap_activity_idle_seconds" ["kind", "jobid", "name"]
        "How long before the counts were read an owner made its last call";
    ACTIVITY_LAUNCHES = Gauge "gpumap_activity_launches_per_second" ["kind", "jobid", "name"]
        "Kernels and graphs that an owner launched, per second of the last interval";
    ACTIVITY_COPIED = Gauge "gpumap_activity_copied_bytes_per_second" ["kind", "jobid", "name"]
        "Bytes that an owner had copied in any direction, per second of the last interval";
    ACTIVITY_WAITING = Gauge "gpumap_activity_waiting_threads" ["kind", "jobid", "name"]
        "Threads of an owner that waited for a GPU, on average over the last interval";
    ACTIVITY_CALL = Gauge "gpumap_activity_longest_wait_seconds" ["kind", "jobid", "name"]
        "How long the longest call lasts that a thread of an owner waits in for a GPU now; 0 if none does";
    ACTIVITY_PARTIAL = Gauge "gpumap_activity_incomplete" ["kind", "jobid", "name"]
        "1 for an owner of whose calls some found no room in a table of the kernel: its other metrics are the least";
    ACTIVITY_MEMORY = Gauge "gpumap_activity_memory_bytes" ["kind", "jobid", "name"]
        "Device memory that the processes of an owner have allocated, as they asked for it";
    ACTIVITY_LAUNCHED = Counter "gpumap_activity_launches_total" ["kind", "jobid", "name"]
        "Kernels and graphs that an owner launched, by processes that have ended too";
    ACTIVITY_COPIED_BYTES = Counter "gpumap_activity_copied_bytes_total" ["kind", "jobid", "name"]
        "Bytes that an owner had copied in any direction, by processes that have ended too";
    ACTIVITY_WAITED = Counter "gpumap_activity_waiting_seconds_total" ["kind", "jobid", "name"]
        "Seconds that threads of an owner waited for a GPU in calls that have returned";
    ACTIVITY_FAILED = Counter "gpumap_activity_failed_calls_total" ["kind", "jobid", "name"]
        "Calls of an owner that failed";
    ACTIVITY_ALL_PROCESSES = Counter "gpumap_activity_processes_total" ["kind", "jobid", "name"]
        "Processes of an owner that made calls of a GPU's driver, those that have ended too";
    VGPU_PROCESSES = Gauge "gpumap_vgpu_processes" ["limit", "in_force", "kind", "jobid", "name"]
        "Processes of an owner by whether their limit of memory or sm (HAMi, SoftMig) is in force";
    VGPU_MEMORY_LIMIT = Gauge "gpumap_vgpu_memory_limit_bytes" ["UUID", "kind", "jobid", "name"]
        "The memory limit that a shared region of an owner has for a GPU; the smallest of several";
    VGPU_MEMORY_USED = Gauge "gpumap_vgpu_memory_used_bytes" ["UUID", "kind", "jobid", "name"]
        "Memory of a GPU that shared regions count for the processes of an owner, all together";
    VGPU_SM_LIMIT = Gauge "gpumap_vgpu_sm_limit_ratio" ["UUID", "kind", "jobid", "name"]
        "The share of a GPU's multiprocessors that a shared region of an owner has as its limit; the smallest of several";
    OWN_CPU = Counter "process_cpu_seconds_total" []
        "Processor time of the gpumap that serves these metrics (--listen), in user and system mode";
    OWN_RESIDENT = Gauge "process_resident_memory_bytes" []
        "Its memory in RAM";
    OWN_VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Its address space";
    OWN_FILES = Gauge "process_open_fds" []
        "Its open files";
    OWN_FILES_LIMIT = Gauge "process_max_fds" []
        "How many files it may have open";
    OWN_BEGUN = Gauge "process_start_time_seconds" []
        "When it began, in seconds since 1970";
    CHECKED = Gauge "gpumap_checked_timestamp_seconds" []
        "When a resident gpumap last looked whether programs or processes changed, in seconds since 1970";
    LOOKS = Counter "gpumap_looks_total" []
        "How often a resident gpumap looked at the whole node";
    POLICY_CHANGES = Counter "gpumap_policy_changes_total" ["effect"]
        "Changes of the programs in force on a cgroup: different rules, the same rules by other programs, or removed with it";
    GPUS_LOST = Counter "gpumap_gpus_lost_total" ["UUID"]
        "How often a cgroup could no longer open a GPU after a change of programs";
    GPUS_GAINED = Counter "gpumap_gpus_gained_total" ["UUID"]
        "How often a cgroup could open a GPU after a change of programs and could not before";
    VISIBLE_CHANGES = Counter "gpumap_visible_changes_total" []
        "How often a running process asked for other GPUs than at the look before";
    DENIALS_WATCHED = Gauge "gpumap_denials_watched" []
        "1 if refused devices are seen on this kernel, else 0: then gpumap_denied_total has no samples";
    DENIED = Counter "gpumap_denied_total" ["UUID", "device", "kind", "jobid", "name"]
        "How often the kernel refused an owner a GPU, or a node that GPUs share (device), because of device programs or the devices controller of cgroup v1";
    DENIED_LOST = Counter "gpumap_denied_lost_total" []
        "Refusals that are not in gpumap_denied_total: there were too many different ones at once, or of too many owners; and checks of devices that gpumap did not see, any of which may be one";
    EVENTS_LOST = Counter "gpumap_events_lost_total" []
        "Changes of programs that were counted and not seen";
}
