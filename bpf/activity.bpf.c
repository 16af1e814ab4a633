/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel side of `gpumap activity`: counts the calls of drivers' functions.
 * One program serves all functions; the cookie of each says what it does and
 * which of its arguments are of interest. Needs Linux 5.15 (cookies) with BTF.
 *
 * Here are the programs at entry and return, for kernels without sessions, and
 * the course of processes.
 */
#include "activity_life.h"
#include "own_stack.h"

SEC("uprobe/call") int enter_any(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	keep_stack_of_task();
	if (!is_left_alone(id))
		enter_call(ctx, thread_of(id), id);
	return 0;
}

SEC("uretprobe/call") int leave_any(void *ctx)
{
	keep_stack_of_task();
	return leave_call(ctx, thread_of(bpf_get_current_pid_tgid()));
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
