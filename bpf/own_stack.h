/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The stack of a program at a uprobe. Linux 6.13 and later keep the stack of such a
 * program once for each processor. A kernel with preemption may run the same program for
 * another task there before the first one has ended: both then write to one stack, sums
 * are wrong, and the kernel fails. This fault of the kernel is open in 7.2.
 */
#pragma once

#include "helpers.h"

/* A program with a tail call keeps its variables on the stack of its task. This call is
 * never made, and the verifier takes it out. Each program at a uprobe begins with this, in
 * a function of its own: in a subprogram it would limit the stack of its callers. */
static __always_inline void keep_stack_of_task(void)
{
	asm volatile("r1 = 0\n"
		     "if r1 == 0 goto +1\n"
		     "call 12" /* bpf_tail_call */
		     ::: "r0", "r1", "r2", "r3", "r4", "r5");
}
