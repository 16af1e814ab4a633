/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whom to follow: everybody, processes by their pids, or cgroups with all that
 * is below them.
 */
#pragma once

#include "kernel.h"

/* Levels of cgroups that are looked at, counted from the root. */
#define LEVELS 32

/* Whom to follow. Slot 0: 1 for everybody; slot 1: 1 if cgroups are followed;
 * slot 2: the pid that is never followed (gpumap's own). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, __u64);
} scope SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

static __always_inline __u64 setting(__u32 slot)
{
	__u64 *value = bpf_map_lookup_elem(&scope, &slot);

	return value ? *value : 0;
}

/* The id of the cgroup that is so many levels below the root on the way to the
 * current process's, or is that cgroup; 0 below it. Kernels before 6.1 keep the
 * ids in the cgroup, and the oldest of them have no helper for it here. */
static __always_inline __u64 ancestor(struct cgroup *own, int level)
{
	struct cgroup___ids *old = (struct cgroup___ids *)own;
	__u64 id = 0;

	if (field_exists(own->ancestors))
		return bpf_get_current_ancestor_cgroup_id(level);
	if (level > read_field(own, level))
		return 0;
	bpf_probe_read_kernel(&id, sizeof(id),
			      (void *)old + field_offset(old->ancestor_ids) + level * sizeof(id));
	return id;
}

/* Whether the current process is in a followed cgroup, however deep. */
static __always_inline int in_cgroups(void)
{
	if (!setting(1))
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct css_set *set = read_field(task, cgroups);
	struct cgroup *own = read_field(set, dfl_cgrp);

	for (int level = 0; level < LEVELS; level++) {
		__u64 id = ancestor(own, level);

		if (!id)
			return 0;
		if (bpf_map_lookup_elem(&cgroups, &id))
			return 1;
	}
	return 0;
}

/* Whether the current process is followed. */
static __always_inline int in_scope(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (setting(2) == pid)
		return 0;
	return setting(0) || bpf_map_lookup_elem(&pids, &pid) || in_cgroups();
}
