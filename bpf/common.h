/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Maps, the scope, and the start of every record.
 */
#pragma once

#include "account.h"

/* Levels of cgroups that are looked at, counted from the root. */
#define LEVELS 32

/* The variables, by their whole names: their indexes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, struct name);
	__type(value, __u32);
} variables SEC(".maps");

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

/* Whether the current process is in a followed cgroup, however deep. */
static __always_inline int in_cgroups(void)
{
	if (!setting(1))
		return 0;
	for (int level = 0; level < LEVELS; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);

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

static __always_inline __u64 start_of(struct task_struct *task)
{
	struct task_struct *leader = read_field(task, group_leader);

	if (field_exists(leader->start_boottime))
		return read_field(leader, start_boottime);
	return read_field((struct task_struct___old *)leader, real_start_time);
}

static __always_inline __u64 cgroup_of(struct task_struct *task)
{
	struct css_set *set = read_field(task, cgroups);
	struct cgroup *cgroup = read_field(set, dfl_cgrp);
	struct kernfs_node *node = read_field(cgroup, kn);

	return read_field(node, id);
}

static __always_inline void describe(struct header *header, struct task_struct *task,
				     __u32 account, __u16 kind)
{
	struct cred *cred = read_field(task, cred);

	/* In this order: what it counts was lost before that moment. */
	header->lost = lost_before(&account);
	header->at = bpf_ktime_get_boot_ns();
	header->start = start_of(task);
	header->cgroup = cgroup_of(task);
	header->pid = read_field(task, tgid);
	header->uid = read_field(cred, euid.val);
	header->account = account;
	header->kind = kind;
	header->flags = 0;
	header->result = 0;
	bpf_probe_read_kernel(header->comm, COMM_SIZE,
			      __builtin_preserve_access_index(&task->comm));
}

/* An event without a variable. */
static __always_inline void report_with(struct task_struct *task, __u16 kind, __s32 result,
					__u16 flags)
{
	__u32 account = account_of(task);
	struct header *header = ROOM(struct header, account);

	if (!header)
		return;
	describe(header, task, account, kind);
	header->result = result;
	header->flags = flags;
	bpf_ringbuf_submit(header, 0);
}

static __always_inline void report(struct task_struct *task, __u16 kind, __s32 result)
{
	report_with(task, kind, result, 0);
}
