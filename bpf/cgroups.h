/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the iterator over cgroups writes: shared with
 * src/observe/monitor/cgroups/lists.rs, which has the same numbers and tests the
 * sizes.
 */
#pragma once

#include <linux/types.h>

/* Programs that one cgroup can have of its own (BPF_CGROUP_MAX_PROGS of
 * kernel/bpf/cgroup.c). */
#define CGROUP_OWN 64
/* Programs in force that one record takes: two levels full of them. */
#define CGROUP_EFFECTIVE 128

enum cgroup_flag {
	/* There are more own programs than fit, or one that cannot be read. */
	CGROUP_OWN_CUT = 1,
	/* There are more programs in force than fit. */
	CGROUP_EFFECTIVE_CUT = 2,
	/* Everything was shown: no cgroup, only the number of records. */
	CGROUP_END = 4,
};

/* A cgroup; `own` and then `effective` ids of 4 bytes follow. */
struct cgroup_record {
	__u64 id;          /* inode number of the directory */
	__u64 revision;    /* of the own list; 0: not counted (before Linux 6.17) */
	__u32 number;      /* 0 for the first record of a walk, then one more each */
	__u32 children;
	__u16 attach_flags;
	__u16 flags;
	__u16 own;
	__u16 effective;
};

_Static_assert(sizeof(struct cgroup_record) == 32, "as in src/observe/monitor/cgroups/lists.rs");
