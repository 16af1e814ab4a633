/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The functions that initialise a driver's library, which reads the variables
 * then and never again.
 */
#pragma once

#include "common.h"
#include "own_stack.h"

static __always_inline int initialised(void *ctx, __u32 kind)
{
	keep_stack_of_task();
	if (in_scope())
		report((struct task_struct *)bpf_get_current_task(), kind, returned(ctx));
	return 0;
}

SEC("uretprobe/cuInit") int leave_cu_init(void *ctx) { return initialised(ctx, CU_INIT); }
SEC("uretprobe/hipInit") int leave_hip_init(void *ctx) { return initialised(ctx, HIP_INIT); }
SEC("uretprobe/hsa_init") int leave_hsa_init(void *ctx) { return initialised(ctx, HSA_INIT); }
