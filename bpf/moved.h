/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Processes and threads that are moved to another cgroup, by whoever writes
 * into a cgroup.procs or cgroup.threads file.
 *
 * The kernel's tracepoint fires after the move and tells the new cgroup alone. So
 * the one of before is kept here for each process of the node: an iterator puts
 * in those that are there at the beginning, fork and exit keep it complete.
 */
#pragma once

#include "common.h"

/* Processes whose cgroup is known at most; of more it is not said where they
 * were. */
#define HOMES 65536

/* Where a process is: all of it but the threads that were moved by themselves. */
struct home {
	__u64 start;  /* of the process: pids are used again */
	__u64 cgroup; /* cgroup2 id */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HOMES);
	__type(key, __u32);
	__type(value, struct home);
} homes SEC(".maps");

static __always_inline void set_home(struct task_struct *task, __u64 cgroup, __u64 flags)
{
	struct home home = { .start = start_of(task), .cgroup = cgroup };
	__u32 pid = read_field(task, tgid);

	bpf_map_update_elem(&homes, &pid, &home, flags);
}

/* It has ended. */
static __always_inline void no_home(struct task_struct *task)
{
	__u32 pid = read_field(task, tgid);

	bpf_map_delete_elem(&homes, &pid);
}

/* Where a process is known to be; 0 if it is not. */
static __always_inline __u64 home_of(struct task_struct *task)
{
	__u32 pid = read_field(task, tgid);
	struct home *home = bpf_map_lookup_elem(&homes, &pid);

	return home && home->start == start_of(task) ? home->cgroup : 0;
}

struct bpf_iter_meta;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* Run once, when the tracepoints are attached: what they put in is newer. */
SEC("iter/task") int find_homes(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && read_field(task, pid) == read_field(task, tgid))
		set_home(task, cgroup_of(task), BPF_NOEXIST);
	return 0;
}

/* Whether a move is told. Where cgroups are followed all are, for a process that
 * leaves a followed one is in it no longer: user space knows which ones matter. */
static __always_inline int is_followed(__u32 pid)
{
	return setting(2) != pid &&
	       (setting(0) || setting(1) || bpf_map_lookup_elem(&pids, &pid));
}

/* Tells that a task is in a cgroup now and was, or began, in another one. */
static __always_inline void tell_move(struct task_struct *task, __u64 from, __u64 to,
				      int whole, __u16 flags)
{
	__u32 pid = read_field(task, tgid);

	if (!is_followed(pid))
		return;
	__u32 account = account_of(task);
	struct moved *moved = ROOM(struct moved, account);

	if (!moved)
		return;
	describe(&moved->header, task, account, MOVED);
	moved->header.cgroup = to;
	moved->header.flags = flags;
	moved->header.result = whole ? 0 : read_field(task, pid);
	moved->from = from;
	bpf_ringbuf_submit(moved, 0);
}

/* trace_cgroup_attach_task(cgroup, path, leader, threadgroup) */
SEC("raw_tp/cgroup_attach_task") int on_move(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *cgroup = (struct cgroup *)ctx->args[0];
	struct task_struct *task = (struct task_struct *)ctx->args[2];
	struct cgroup_root *root = read_field(cgroup, root);
	struct kernfs_node *node = read_field(cgroup, kn);

	/* The hierarchy of cgroup2 has the number 0, those of v1 others. */
	if (read_field(root, hierarchy_id))
		return 0;
	__u64 to = read_field(node, id);
	int whole = ctx->args[3] & 1 || read_field(task, pid) == read_field(task, tgid);

	tell_move(task, whole ? home_of(task) : 0, to, whole, 0);
	if (whole)
		set_home(task, to, BPF_ANY);
	return 0;
}

/* A new process or thread that begins in another cgroup than the one it comes
 * from (CLONE_INTO_CGROUP, Linux 5.7): nobody moves it. */
static __always_inline void born(struct task_struct *parent, struct task_struct *child)
{
	__u64 from = cgroup_of(parent), to = cgroup_of(child);

	if (read_field(child, pid) == read_field(child, tgid))
		set_home(child, to, BPF_ANY);
	if (from != to)
		tell_move(child, from, to, read_field(child, pid) == read_field(child, tgid), BORN);
}
