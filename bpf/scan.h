/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the iterators over processes and their files write: shared with
 * src/observe/scanner/iterators.rs, which has the same numbers and tests the
 * sizes.
 */
#pragma once

#include <linux/types.h>

#define SCAN_COMM 16
enum scan_flag {
	/* A thread of the kernel, or one that has ended: nothing but the pid. */
	SCAN_NO_PROCESS = 1,
};

/* A process. */
struct scan_task {
	__u64 start;       /* CLOCK_BOOTTIME, nanoseconds */
	__u64 cgroup;      /* cgroup2 id */
	__u64 start_code;  /* these two tell one program from another; 0 where the */
	__u64 start_stack; /* main thread has ended and others go on */
	__u64 executed;    /* programs that the thread has executed, one by one */
	__u32 pid;         /* as this pid namespace has it */
	__u32 uid;         /* effective */
	__u32 flags;
	__u32 pad;
	char comm[SCAN_COMM];
};

/* An open file that is a device. */
struct scan_file {
	__u64 start;       /* of the process, as above */
	__u64 table;       /* tells one table of descriptors from another */
	__u32 pid;
	__u32 rdev;        /* the kernel's: 12 bits of major, 20 of minor */
	__u32 block;       /* 1: block device, 0: character device */
	__u32 tid;         /* threads that share a table show it again each */
};

_Static_assert(sizeof(struct scan_task) == 72, "as in src/observe/scanner/iterators.rs");
_Static_assert(sizeof(struct scan_file) == 32, "as in src/observe/scanner/iterators.rs");
