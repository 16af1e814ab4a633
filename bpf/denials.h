/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Refusals of devices, as the kernel side sums them: shared with
 * src/watch/denials/record.rs, which has the same numbers and tests the sizes.
 */
#pragma once

#include <linux/types.h>

#define DENIAL_COMM 16

/* Who was refused what: those that are the same are one. */
struct denial_key {
	__u64 start;     /* of the process, CLOCK_BOOTTIME, nanoseconds */
	__u64 cgroup;    /* cgroup2 id, of the thread */
	__u32 pid;       /* the process */
	__u32 account;   /* the user who answers for it: see bpf/task.h */
	__u32 major;
	__u32 minor;
	__u16 type;      /* as in linux/bpf.h: block devices 1, character devices 2 */
	__u16 access;    /* mknod 1, read 2, write 4 */
	__s32 error;     /* what the kernel answered, a negative number */
};

/* How often. */
struct denial {
	__u64 first;     /* CLOCK_BOOTTIME, nanoseconds */
	__u64 last;
	__u64 count;
	__u32 uid;       /* effective, at the first */
	__u32 pad;
	char comm[DENIAL_COMM];
};

/* The devices that count: those of a type and a major number. */
struct denial_major {
	__u32 type;
	__u32 major;
};

/* What user space sets: in which turn it is, and whether all devices count. The
 * kernel side counts what it has noted in this turn. */
struct denial_turn {
	__u64 number;
	__u64 everything;
	__u64 noted;
};

_Static_assert(sizeof(struct denial_key) == 40, "as in src/watch/denials/record.rs");
_Static_assert(sizeof(struct denial) == 48, "as in src/watch/denials/record.rs");
_Static_assert(sizeof(struct denial_turn) == 24, "as in src/watch/denials/record.rs");
