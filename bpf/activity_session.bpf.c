/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * One program for entry and return (Linux 6.13): a launch that is not timed
 * takes no probe at its return. Loaded beside activity.bpf.o, whose maps it uses.
 */
#include "activity_calls.h"

/* At entry, 1 wants no return. */
SEC("uprobe/session") int session_call(void *ctx)
{
	struct thread *thread = current_thread();

	/* It wanted no return. */
	if (is_left_alone(thread))
		return 1;
	if (bpf_get_func_ip(ctx) == instruction(ctx))
		return !enter_call(ctx, thread);
	return leave_call(ctx, thread);
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
