/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program at the entry and one at the return of each function that changes
 * the environment, for kernels without sessions: both are always taken.
 */
#pragma once

#include "environ.h"
#include "own_stack.h"

static __always_inline int entered(void *ctx, __u32 kind)
{
	keep_stack_of_task();
	enter(ctx, kind);
	return 0;
}

SEC("uprobe/setenv") int enter_setenv(void *ctx) { return entered(ctx, SETENV); }
SEC("uprobe/putenv") int enter_putenv(void *ctx) { return entered(ctx, PUTENV); }
SEC("uprobe/unsetenv") int enter_unsetenv(void *ctx) { return entered(ctx, UNSETENV); }
SEC("uprobe/clearenv") int enter_clearenv(void *ctx) { return entered(ctx, CLEARENV); }
SEC("uretprobe/any") int leave_any(void *ctx)
{
	keep_stack_of_task();
	return leave(ctx);
}
