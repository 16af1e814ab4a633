/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program at the entry and one at the return of each function that changes
 * the environment, for kernels without sessions: both are always taken.
 */
#pragma once

#include "environ.h"

#ifdef PLAIN
#define ENTRY(name) SEC("uprobe/" name)
#define RETURN(name) SEC("uretprobe/" name)
#else
#define ENTRY(name) SEC("uprobe.s/" name)
#define RETURN(name) SEC("uretprobe.s/" name)
#endif

static __always_inline int entered(void *ctx, __u32 kind)
{
	enter(ctx, kind);
	return 0;
}

ENTRY("setenv") int enter_setenv(void *ctx) { return entered(ctx, SETENV); }
ENTRY("putenv") int enter_putenv(void *ctx) { return entered(ctx, PUTENV); }
ENTRY("unsetenv") int enter_unsetenv(void *ctx) { return entered(ctx, UNSETENV); }
ENTRY("clearenv") int enter_clearenv(void *ctx) { return entered(ctx, CLEARENV); }
RETURN("any") int leave_any(void *ctx) { return leave(ctx); }
