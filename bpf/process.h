/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Processes that begin, execute another program and end.
 */
#pragma once

#include "executed.h"
#include "moved.h"

/* trace_sched_process_exec(task, old_pid, binprm). The variables come first.
 * Where the environment ends is random: with it /proc tells whether it still is
 * that of this exec. */
SEC("raw_tp/sched_process_exec") int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct mm_struct *mm = read_field(task, mm);

	if (in_scope())
		report_with(task, EXEC, read_field(mm, env_end), environment(mm));
	return 0;
}

static __always_inline void forked(struct task_struct *parent, struct task_struct *child)
{
	__u32 account = account_of(child);
	struct forked *forked = ROOM(struct forked, account);

	if (!forked)
		return;
	describe(&forked->header, child, account, FORK);
	forked->header.result = read_field(parent, tgid);
	forked->parent_start = start_of(parent);
	bpf_ringbuf_submit(forked, 0);
}

/* trace_sched_process_fork(parent, child); a child inherits the environment. */
SEC("raw_tp/sched_process_fork") int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];

	if (read_field(child, pid) == read_field(child, tgid) && in_scope())
		forked(parent, child);
	born(parent, child);
	return 0;
}

/* trace_sched_process_exit(task): the last thread ends the process. */
SEC("raw_tp/sched_process_exit") int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct signal_struct *signal = read_field(task, signal);

	if (read_field(signal, live.counter))
		return 0;
	no_home(task);
	if (in_scope())
		report(task, EXIT, 0);
	return 0;
}
