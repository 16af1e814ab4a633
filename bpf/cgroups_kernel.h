/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel types in which cgroups keep their programs, as kernel.h has those
 * of the watch. Arrays have no length here: where an element lies is computed
 * with the sizes that the running kernel states.
 */
#pragma once

#include "helpers.h"

struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } RELOCATED;

struct hlist_node { struct hlist_node *next; } RELOCATED;
struct hlist_head { struct hlist_node *first; } RELOCATED;

struct bpf_prog_aux { __u32 id; } RELOCATED;
struct bpf_prog { struct bpf_prog_aux *aux; } RELOCATED;
struct bpf_link { struct bpf_prog *prog; } RELOCATED;
struct bpf_cgroup_link { struct bpf_link link; } RELOCATED;
struct bpf_prog_list {
	struct hlist_node node;
	struct bpf_prog *prog;
	struct bpf_cgroup_link *link;
} RELOCATED;
struct bpf_prog_array_item { struct bpf_prog *prog; } RELOCATED;
struct bpf_prog_array { struct bpf_prog_array_item items[0]; } RELOCATED;

/* Of kernels that have an iterator over cgroups: before, flags were larger and
 * lists of another kind. */
struct cgroup_bpf {
	struct bpf_prog_array *effective[0];
	struct hlist_head progs[0];
	__u8 flags[0];
	__u64 revisions[0];
} RELOCATED;

struct kernfs_elem_dir { unsigned long subdirs; } RELOCATED;
struct kernfs_node { struct kernfs_elem_dir dir; __u64 id; } RELOCATED;
struct cgroup { struct kernfs_node *kn; struct cgroup_bpf bpf; } RELOCATED;

/* Kernels number these as they were built. */
enum cgroup_bpf_attach_type { CGROUP_DEVICE = 6 };

/* BPF_ENUMVAL_VALUE of the relocations. */
#define device_lists() \
	__builtin_preserve_enum_value(*(enum cgroup_bpf_attach_type *)CGROUP_DEVICE, 1)
