//! Map types: their names, and which of them can be read whole.

/// Names as bpftool prints them, in the order of `enum bpf_map_type`.
const NAMES: [&str; 35] = [
    "unspec",
    "hash",
    "array",
    "prog_array",
    "perf_event_array",
    "percpu_hash",
    "percpu_array",
    "stack_trace",
    "cgroup_array",
    "lru_hash",
    "lru_percpu_hash",
    "lpm_trie",
    "array_of_maps",
    "hash_of_maps",
    "devmap",
    "sockmap",
    "cpumap",
    "xskmap",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "queue",
    "stack",
    "sk_storage",
    "devmap_hash",
    "struct_ops",
    "ringbuf",
    "inode_storage",
    "task_storage",
    "bloom_filter",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
    "insn_array",
];

/// How a map's values come back from a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value of the stated size.
    Plain,
    /// One value for each possible CPU, each rounded up to 8 bytes.
    PerCpu,
    /// The id of another map or program, 4 bytes.
    Id,
}

/// The name of a map type, `type 99` for one that is not known here.
pub fn map_type_name(kind: u32) -> String {
    NAMES.get(kind as usize).map_or_else(|| format!("type {kind}"), |name| (*name).to_owned())
}

/// How to read the type; `None` if user space cannot list its entries.
pub(super) fn shape(kind: u32) -> Option<Shape> {
    match NAMES.get(kind as usize).copied()? {
        "hash" | "array" | "lru_hash" | "lpm_trie" | "cgroup_storage" => Some(Shape::Plain),
        "percpu_hash" | "percpu_array" | "lru_percpu_hash" | "percpu_cgroup_storage" => Some(Shape::PerCpu),
        "array_of_maps" | "hash_of_maps" | "prog_array" => Some(Shape::Id),
        _ => None,
    }
}
