//! What helpers mean: the one place that knows the kernel's functions by name.
//!
//! For each helper it says which memory and which maps it writes, what it
//! returns, and whether its result depends on the cgroup or touches the hook's
//! error. `calls` carries these meanings out.

use std::collections::BTreeMap;

/// The effects of a helper besides returning a number that gpumap does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that a program or a later question could see.
    Nothing,
    /// Writes the memory that the first of these registers points to, as many
    /// bytes as the second says; without a second, an unknown number.
    Fills(usize, Option<usize>),
    /// Writes so many bytes of the memory that this register points to.
    FillsBytes(usize, u64),
    /// Makes the 16 bytes at this register a description (a dynptr) of the
    /// memory at r1, through which that may be written to later.
    MakesDynptr { to: usize },
    /// Writes the timer at r1, which calls the function in r2 some time later.
    CallsBackLater,
    /// Puts entries into the map in r1 or takes some out.
    Changes,
    /// Reads an entry of the map in r1, or takes it out, and writes it to the memory
    /// at r2.
    Takes,
    /// Returns memory for a record, or memory that a dynptr describes; or null.
    Record,
    /// Returns the value that the map in r1 keeps for an object outside of the
    /// program; null if the flag is set and the object has none.
    Storage { may_be_null: bool },
}

/// Bytes of `struct bpf_timer` (`linux/bpf.h`).
pub const TIMER: u64 = 16;

/// Helpers that read what they are given, or nothing. Those for dynptrs write
/// to memory that was counted as written when the dynptr was made.
const READERS: &[&str] = &[
    "bpf_get_prandom_u32",
    "bpf_user_rnd_u32",
    "bpf_get_smp_processor_id",
    "bpf_get_raw_cpu_id",
    "bpf_get_numa_node_id",
    "bpf_ktime_get_ns",
    "bpf_ktime_get_boot_ns",
    "bpf_ktime_get_coarse_ns",
    "bpf_ktime_get_tai_ns",
    "bpf_jiffies64",
    "bpf_get_current_pid_tgid",
    "bpf_get_current_uid_gid",
    "bpf_get_current_task",
    "bpf_get_current_task_btf",
    "bpf_current_task_under_cgroup",
    "bpf_get_cgroup_classid",
    "bpf_get_cgroup_classid_curr",
    "bpf_trace_printk",
    "bpf_trace_vprintk",
    "bpf_perf_event_output",
    "bpf_event_output_data",
    "bpf_ringbuf_output",
    "bpf_ringbuf_query",
    "bpf_ringbuf_submit",
    "bpf_ringbuf_discard",
    "bpf_spin_lock",
    "bpf_spin_unlock",
    "bpf_strncmp",
    "bpf_dynptr_write",
    "bpf_ringbuf_submit_dynptr",
    "bpf_ringbuf_discard_dynptr",
    // The value is what is asked for: a Bloom filter gives none back.
    "bloom_map_peek_elem",
];

/// The effect of the kernel function `name` as a helper; `None` if gpumap does not
/// know it.
pub fn effect(name: &str) -> Option<Effect> {
    if READERS.contains(&name) {
        return Some(Effect::Nothing);
    }
    Some(match name {
        "bpf_get_current_comm"
        | "bpf_snprintf"
        | "bpf_snprintf_btf"
        | "bpf_probe_read_kernel"
        | "bpf_probe_read_kernel_str"
        | "bpf_probe_read_user"
        | "bpf_probe_read_user_str"
        | "bpf_probe_read_compat"
        | "bpf_probe_read_compat_str"
        | "bpf_probe_read" => Effect::Fills(1, Some(2)),
        "bpf_get_ns_current_pid_tgid" => Effect::Fills(3, Some(4)),
        "bpf_strtol" | "bpf_strtoul" => Effect::FillsBytes(4, 8),
        "bpf_ringbuf_reserve" | "bpf_dynptr_data" => Effect::Record,
        // The old pointer, which is in r0, was in the place of the new one.
        "bpf_kptr_xchg" => Effect::FillsBytes(1, 8),
        "bpf_timer_init" | "bpf_timer_start" | "bpf_timer_cancel" => Effect::FillsBytes(1, TIMER),
        // In r3 the verifier adds an address of the kernel's own.
        "bpf_timer_set_callback" => Effect::CallsBackLater,
        "bpf_dynptr_from_mem" | "bpf_ringbuf_reserve_dynptr" => Effect::MakesDynptr { to: 4 },
        "bpf_dynptr_read" => Effect::Fills(1, Some(2)),
        "bpf_get_local_storage" => Effect::Storage { may_be_null: false },
        "bpf_cgrp_storage_get" | "bpf_task_storage_get" | "bpf_task_storage_get_recur" => {
            Effect::Storage { may_be_null: true }
        }
        _ if ["_update_elem", "_delete_elem", "_push_elem"].iter().any(|end| name.ends_with(end)) => {
            Effect::Changes
        }
        _ if ["_pop_elem", "_peek_elem"].iter().any(|end| name.ends_with(end)) => Effect::Takes,
        _ => return None,
    })
}

/// How a lookup function finds an entry; `None` for other functions.
pub fn lookup(name: &str) -> Option<LookupResult> {
    Some(match name {
        // The element, to which inlined code adds the step to the value.
        "__htab_map_lookup_elem" => LookupResult::Element,
        "bpf_map_lookup_elem"
        | "htab_map_lookup_elem"
        | "htab_lru_map_lookup_elem"
        | "htab_percpu_map_lookup_elem"
        | "htab_lru_percpu_map_lookup_elem"
        | "array_map_lookup_elem"
        | "percpu_array_map_lookup_elem"
        | "trie_lookup_elem"
        | "array_of_map_lookup_elem"
        | "htab_of_map_lookup_elem" => LookupResult::Value,
        "bpf_map_lookup_percpu_elem"
        | "htab_percpu_map_lookup_percpu_elem"
        | "htab_lru_percpu_map_lookup_percpu_elem"
        | "percpu_array_map_lookup_percpu_elem" => LookupResult::ValueOfCpu,
        _ => return None,
    })
}

/// The result of a lookup function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// A hash table's element.
    Element,
    /// The value.
    Value,
    /// The value of the CPU that is named in r3, null if there is no such CPU.
    ValueOfCpu,
}

/// Whether a call of `name` writes no map, whatever its arguments, and returns to
/// the program.
pub fn is_harmless(name: &str) -> bool {
    let modelled = [
        "bpf_get_current_cgroup_id",
        "bpf_get_current_ancestor_cgroup_id",
        "bpf_get_retval",
        "bpf_set_retval",
    ];
    effect(name) == Some(Effect::Nothing) || lookup(name).is_some() || modelled.contains(&name)
}

/// Whether a helper writes nothing by itself and calls a function of the
/// program.
pub fn only_calls_back(name: &str) -> bool {
    name == "bpf_loop" || name.starts_with("bpf_for_each_")
}

/// How the kernel dumps a tail call, whatever the reader's rights: by the
/// helper's number (`BPF_FUNC_tail_call`, `linux/bpf.h`).
const TAIL_CALL: i32 = 12;

/// Whether a call continues in another program.
pub fn is_tail_call(helper: i32, name: Option<&str>) -> bool {
    helper == TAIL_CALL || name == Some("bpf_tail_call")
}

/// Functions of the kernel (kfuncs) that gpumap runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFunction {
    /// `int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end)`
    NewIterator,
    /// `int *bpf_iter_num_next(struct bpf_iter_num *it)`
    NextNumber,
    /// `void bpf_iter_num_destroy(struct bpf_iter_num *it)`
    DestroyIterator,
    /// `int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 words)`
    NewBits,
    /// `int *bpf_iter_bits_next(struct bpf_iter_bits *it)`
    NextBit,
    /// `void bpf_iter_bits_destroy(struct bpf_iter_bits *it)`
    DestroyBits,
    /// `void bpf_throw(u64 cookie)`: it ends the program with what the function for
    /// exceptions returns.
    Throw,
    /// It writes nothing that a program could see, comes back to the program, and
    /// returns nothing, a number or a pointer of the kernel.
    Harmless,
    /// It returns an object that only programs like this one reach, or null.
    Object,
    /// It writes eight bytes at the address in this register, which is on the stack,
    /// and returns nothing or a number.
    SavesFlags(usize),
    /// `int bpf_dynptr_clone(const struct bpf_dynptr *p, struct bpf_dynptr *clone)`
    CopiesDynptr,
    /// `void *bpf_dynptr_slice(const struct bpf_dynptr *p, u64 offset, void *buffer, u64 size)`:
    /// it returns memory that the dynptr describes, or the buffer, to which it has copied
    /// that; or null. What it returns is there to be read alone.
    Slice,
}

/// Functions that take or give back what keeps an object of the kernel there,
/// keep others from running meanwhile, or read or print text. Those for dynptrs write to
/// memory that was counted as written when the dynptr was made. Locks and heads of lists are
/// memory that the verifier lets no program read. Of memory shared with user space (an arena)
/// nothing is known before or after its pages are taken or given back.
///
/// Linux 7.0 and 7.2 know some functions without `_impl` in their names: the verifier adds the
/// last argument there.
const HARMLESS_FUNCTIONS: &[&str] = &[
    "bpf_arena_alloc_pages",
    "bpf_arena_alloc_pages_non_sleepable",
    "bpf_arena_free_pages",
    "bpf_arena_free_pages_non_sleepable",
    "bpf_rcu_read_lock",
    "bpf_rcu_read_unlock",
    "bpf_preempt_disable",
    "bpf_preempt_enable",
    "bpf_local_irq_restore",
    "bpf_res_spin_lock",
    "bpf_res_spin_unlock",
    "bpf_res_spin_unlock_irqrestore",
    "bpf_task_acquire",
    "bpf_task_release",
    "bpf_task_from_pid",
    "bpf_task_from_vpid",
    "bpf_cgroup_acquire",
    "bpf_cgroup_release",
    "bpf_cgroup_ancestor",
    "bpf_cgroup_from_id",
    "bpf_task_under_cgroup",
    "bpf_obj_drop",
    "bpf_obj_drop_impl",
    "bpf_percpu_obj_drop",
    "bpf_percpu_obj_drop_impl",
    "bpf_list_push_front",
    "bpf_list_push_front_impl",
    "bpf_list_push_back",
    "bpf_list_push_back_impl",
    "bpf_dynptr_adjust",
    "bpf_dynptr_copy",
    "bpf_dynptr_memset",
    "bpf_dynptr_is_null",
    "bpf_dynptr_is_rdonly",
    "bpf_dynptr_size",
    "bpf_stream_vprintk",
    "bpf_stream_vprintk_impl",
    "bpf_strcasecmp",
    "bpf_strcmp",
    "bpf_strchr",
    "bpf_strchrnul",
    "bpf_strrchr",
    "bpf_strlen",
    "bpf_strnlen",
    "bpf_strspn",
    "bpf_strcspn",
    "bpf_strcasestr",
    "bpf_strncasestr",
    "bpf_strstr",
    "bpf_strnstr",
];

/// Functions that make an object or take one out of a list.
const OBJECT_FUNCTIONS: &[&str] = &[
    "bpf_obj_new",
    "bpf_obj_new_impl",
    "bpf_percpu_obj_new",
    "bpf_percpu_obj_new_impl",
    "bpf_refcount_acquire",
    "bpf_refcount_acquire_impl",
    "bpf_list_pop_front",
    "bpf_list_pop_back",
];

/// The kernel function of this name, if gpumap runs it.
pub fn kernel_function(name: &str) -> Option<KernelFunction> {
    Some(match name {
        "bpf_iter_num_new" => KernelFunction::NewIterator,
        "bpf_iter_num_next" => KernelFunction::NextNumber,
        "bpf_iter_num_destroy" => KernelFunction::DestroyIterator,
        "bpf_iter_bits_new" => KernelFunction::NewBits,
        "bpf_iter_bits_next" => KernelFunction::NextBit,
        "bpf_iter_bits_destroy" => KernelFunction::DestroyBits,
        "bpf_throw" => KernelFunction::Throw,
        "bpf_local_irq_save" => KernelFunction::SavesFlags(1),
        "bpf_res_spin_lock_irqsave" => KernelFunction::SavesFlags(2),
        "bpf_dynptr_clone" => KernelFunction::CopiesDynptr,
        "bpf_dynptr_slice" => KernelFunction::Slice,
        name if HARMLESS_FUNCTIONS.contains(&name) => KernelFunction::Harmless,
        name if OBJECT_FUNCTIONS.contains(&name) => KernelFunction::Object,
        _ => return None,
    })
}

/// The kernel function of this call, by the names of a program's calls, if gpumap
/// carries it out.
pub fn known_function(calls: &BTreeMap<i32, String>, call: i32) -> Option<KernelFunction> {
    calls.get(&call).and_then(|name| kernel_function(name))
}

/// Whether a helper may read or change the error that the hook returns; one
/// without a name may.
pub fn may_touch_retval(name: Option<&str>) -> bool {
    name.is_none_or(|name| name.ends_with("_retval") || name == "bpf_tail_call")
}

/// Whether what a helper returns depends on the cgroup of the process, or on that to
/// which the program is attached.
pub fn reads_cgroup_id(name: &str) -> bool {
    let names = ["bpf_get_current_cgroup_id", "bpf_get_current_ancestor_cgroup_id", "bpf_get_local_storage"];
    names.contains(&name)
}
