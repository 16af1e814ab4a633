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

SEC("uprobe/call") int enter_any(void *ctx)
{
	struct thread *thread = current_thread();

	if (!is_left_alone(thread))
		enter_call(ctx, thread);
	return 0;
}

SEC("uretprobe/call") int leave_any(void *ctx)
{
	return leave_call(ctx, current_thread());
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
