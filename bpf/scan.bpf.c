/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The processes of the node with their environments, and the devices that they
 * have open: one read instead of several files of /proc for each. Needs Linux
 * 5.18 (iter.s/task with bpf_copy_from_user_task) with BTF.
 *
 * A program that is loaded is only ever run by who reads it; nothing is
 * attached to what other processes do.
 */
#include "namespace.h"
#include "scan.h"

#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFBLK 0060000
#define PF_KTHREAD 0x00200000

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd __attribute__((aligned(8)));
	struct file *file __attribute__((aligned(8)));
};

/* One record: too large for the stack. Reading is never done twice at a time. */
struct record {
	struct scan_task task;
	char environment[SCAN_ROOM];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

/* Slot 0: 1 to leave environments out, for who knows them already. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} bare SEC(".maps");

static __always_inline int is_bare(void)
{
	__u32 zero = 0, *value = bpf_map_lookup_elem(&bare, &zero);

	return value && *value;
}

/* Who it is. */
static __always_inline void describe(struct scan_task *to, struct task_struct *task)
{
	to->start = task->start_boottime;
	to->cgroup = task->cgroups->dfl_cgrp->kn->id;
	to->pid = pid_at(task, own_level());
	to->executed = task->self_exec_id;
	to->uid = task->real_cred->euid.val;
	bpf_probe_read_kernel(to->comm, SCAN_COMM, __builtin_preserve_access_index(&task->comm));
}

/* Reads the environment into the record; the bytes that were read. */
static __always_inline __u32 environment(struct record *to, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;

	if (!mm) {
		to->task.flags = SCAN_NO_MEMORY;
		return 0;
	}
	unsigned long from = mm->env_start, end = mm->env_end, size = end - from;

	to->task.start_code = mm->start_code;
	to->task.start_stack = mm->start_stack;
	if (!end || end <= from) {
		to->task.flags = end ? 0 : SCAN_STARTING;
		return 0;
	}
	if (is_bare()) {
		to->task.flags = SCAN_BARE;
		return 0;
	}
	if (size > SCAN_ROOM ||
	    bpf_copy_from_user_task(to->environment, size, (const void *)from, task, 0)) {
		to->task.flags = SCAN_UNREAD;
		return 0;
	}
	return size;
}

SEC("iter.s/task") int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 zero = 0;
	struct record *record = bpf_map_lookup_elem(&scratch, &zero);

	if (!task || !record || task->pid != task->tgid)
		return 0;
	__builtin_memset(&record->task, 0, sizeof(record->task));
	describe(&record->task, task);
	__u32 length = 0;

	if (task->flags & PF_KTHREAD || !task->signal->live.counter)
		record->task.flags = SCAN_NO_PROCESS;
	else
		length = environment(record, task);

	/* The verifier cannot know what environment() has made sure of. */
	if (length > SCAN_ROOM)
		return 0;
	record->task.length = length;
	bpf_seq_write(ctx->meta->seq, record, sizeof(record->task) + length);
	return 0;
}

/* The kernel leaves out threads that share their main thread's table. */
SEC("iter/task_file") int files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (!task || !file)
		return 0;
	__u32 kind = file->f_inode->i_mode & S_IFMT;

	if (kind != S_IFCHR && kind != S_IFBLK)
		return 0;
	struct task_struct *leader = task->group_leader;
	struct scan_file record = {
		.start = leader->start_boottime,
		.table = (unsigned long)task->files,
		.pid = pid_at(leader, own_level()),
		.rdev = file->f_inode->i_rdev,
		.block = kind == S_IFBLK,
		.tid = task->pid,
	};

	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
