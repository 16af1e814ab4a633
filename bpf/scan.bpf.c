/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The processes of the node, and the devices that they have open: one read
 * instead of several files of /proc for each. Needs Linux 5.8 (iterators over
 * tasks and their files) with BTF.
 *
 * Nothing of a process's own memory is read: its pages may be made to never
 * come, and an iterator that waits for one keeps the kernel waiting.
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
/* linux/fs.h: the file was opened with O_PATH, which opens no device. */
#define FMODE_PATH 0x4000

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

SEC("iter/task") int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct scan_task record = {};

	if (!task || task->pid != task->tgid)
		return 0;
	describe(&record, task);
	struct mm_struct *mm = task->mm;

	if (task->flags & PF_KTHREAD || !task->signal->live.counter) {
		record.flags = SCAN_NO_PROCESS;
	} else if (mm) {
		/* Without it the main thread has ended, and others go on. */
		record.start_code = mm->start_code;
		record.start_stack = mm->start_stack;
	}
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

/* The kernel leaves out threads that share their main thread's table. */
SEC("iter/task_file") int files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (!task || !file || file->f_mode & FMODE_PATH)
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
