/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel side of src/activity/interception shares with user space.
 */
#pragma once

#include <linux/types.h>

/* Classes of times: the first takes what is below 2^FIRST_CLASS_BITS ns. As of the
 * durations in activity.h. */
#define CLASSES 16
#define FIRST_CLASS_BITS 7

/* The calls of one function by one process. `function` is the cookie of its probes. */
struct interception_key {
	__u64 start;          /* CLOCK_BOOTTIME */
	__u32 pid;
	__u32 function;
};

struct interception {
	__u64 calls;          /* of the library in between */
	__u64 reached;        /* those in which it called the driver */
	__u64 ns;             /* from the one to the other, all together */
	__u64 classes[CLASSES];
};

_Static_assert(sizeof(struct interception_key) == 16, "as in src/activity/interception/tables.rs");
_Static_assert(sizeof(struct interception) == 152, "as in src/activity/interception/tables.rs");
