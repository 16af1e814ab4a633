/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Processes that begin, execute another program and end. Their sums stay until
 * user space has read them. Records tell user space where to look for libraries;
 * sums do not depend on them.
 */
#pragma once

#include "activity_calls.h"

static __always_inline void ended(__u32 pid, __u32 executed)
{
	__u64 *id = bpf_map_lookup_elem(&current, &pid);
	struct activity_process *process = id ? bpf_map_lookup_elem(&processes, id) : 0;
	__u32 *account, number, contexts;

	if (process) {
		contexts = process->held[CONTEXTS];
		change_reasons(*id, -process->held[CAPTURES] - (contexts ? contexts - 1 : 0));
		process->executed = executed;
		process->ended = bpf_ktime_get_ns();
	}
	if (id)
		bpf_map_delete_elem(&current, &pid);
	account = bpf_map_lookup_elem(&outside, &pid);
	if (!account)
		return;
	number = *account;
	if (!bpf_map_delete_elem(&outside, &pid))
		give_back_share(number, OUTSIDE);
}

/* trace_sched_process_exec(task, old_pid, binprm): the thread has the process's
 * number now, and had `old_pid` before; all others have ended. */
SEC("raw_tp/sched_process_exec") int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 pid = read_field(task, tgid), before = ctx->args[1];

	forget_thread(pid);
	forget_thread(before);
	ended(pid, 1);
	if (in_scope())
		tell(task, LIFE_EXEC, before);
	return 0;
}

/* trace_sched_process_fork(parent, child). */
SEC("raw_tp/sched_process_fork") int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];

	if (read_field(child, pid) == read_field(child, tgid) && in_scope())
		tell(child, LIFE_FORK, read_field(parent, tgid));
	return 0;
}

/* trace_sched_process_exit(task): the last thread ends the process. */
SEC("raw_tp/sched_process_exit") int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct signal_struct *signal = read_field(task, signal);
	__u32 tid = read_field(task, pid), pid = read_field(task, tgid);

	forget_thread(tid);
	if (read_field(signal, live.counter))
		return 0;
	ended(pid, 0);
	if (in_scope())
		tell(task, LIFE_EXIT, 0);
	return 0;
}

/* trace_cgroup_attach_task(cgroup, path, leader, threadgroup). */
SEC("raw_tp/cgroup_attach_task") int on_move(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&moves, &zero);

	if (number)
		add(number, 1);
	return 0;
}
