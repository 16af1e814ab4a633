/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The variables, and the start of every record.
 */
#pragma once

#include "account.h"
#include "scope.h"

/* The variables, by their whole names: their indexes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, struct name);
	__type(value, __u32);
} variables SEC(".maps");

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
