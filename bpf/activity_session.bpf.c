/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * One program for entry and return (Linux 6.13): a launch that is not timed
 * takes no probe at its return. Loaded beside activity.bpf.o, whose maps it uses.
 */
#include "activity_calls.h"
#include "own_stack.h"

/* At entry, 1 wants no return. */
SEC("uprobe/session") int session_call(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct thread *thread;

	keep_stack_of_task();
	/* It wanted no return. This comes before the thread's entry is looked up: finding no entry
	 * takes as long as finding one. */
	if (is_left_alone(id))
		return 1;
	thread = thread_of(id);
	/* A thread that is in no call cannot return from one: the helper costs time. */
	if ((thread && !thread->stack) || bpf_get_func_ip(ctx) == instruction(ctx))
		return !enter_call(ctx, thread, id);
	return leave_call(ctx, thread);
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
