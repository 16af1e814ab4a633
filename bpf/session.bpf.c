/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * One program for entry and return of the functions that change the
 * environment (Linux 6.13): a call that is filtered out at its entry takes no
 * probe at its return. Loaded beside watch.bpf.o, whose maps it uses.
 *
 * The section is one that loaders know; that it is a session is said when it
 * is loaded and attached (src/sys/bpf/attach).
 */
#include "environ.h"
#include "own_stack.h"

/* Whether the function is being entered. At its return the registers have the
 * address that it returns to. */
static __always_inline int at_entry(void *ctx)
{
	return bpf_get_func_ip(ctx) == instruction(ctx);
}

/* The cookie is the kind of call. At entry, 1 wants no return. */
SEC("uprobe/session") int session_environ(void *ctx)
{
	keep_stack_of_task();
	if (at_entry(ctx))
		return !enter(ctx, bpf_get_attach_cookie(ctx));
	return leave(ctx);
}

/* Some of the helpers are for programs under a GPL-compatible licence. */
SEC("license") char LICENSE[] = "Dual MIT/GPL";
