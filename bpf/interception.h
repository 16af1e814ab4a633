/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel side of src/activity/interception shares with user space.
 */
#pragma once

#include <linux/types.h>

/* Classes of times: LINEAR of 16 ns each, so that what a library takes can be told from what
 * a probe takes; then four for each power of two from 2^FIRST_CLASS_BITS ns on, one for the
 * last power, and one for all that is longer. */
#define FIRST_CLASS_BITS 11
#define LINEAR 128
#define SPLIT_OCTAVES 9
#define CLASSES (LINEAR + 4 * SPLIT_OCTAVES + 2)

/* Cookies of the driver's functions: the number of the function, and where it says how many
 * bytes of a device are allocated. */
#define FUNCTION_OF(cookie) ((cookie) & 255)
#define BYTES_OF(cookie) ((cookie) >> 8 & 15)
enum bytes {
	NO_BYTES,
	IN_ARGUMENT,          /* the second one */
	WIDTH_AND_HEIGHT,     /* the third one and the fourth */
	ARRAY,                /* in a CUDA_ARRAY_DESCRIPTOR, the second argument */
	ARRAY_3D,             /* in a CUDA_ARRAY3D_DESCRIPTOR */
	MIPMAPS,              /* the same, and the third argument says how many levels */
};

/* The calls of one function by one process. */
struct interception_key {
	__u64 start;          /* CLOCK_BOOTTIME */
	__u32 pid;
	__u32 function;
};

struct interception {
	__u64 calls;          /* of the library in between */
	__u64 reached;        /* those in which it called the driver */
	__u64 ns;             /* from the one to the other, all together */
	__u64 past;           /* calls of the driver that the library had no part in */
	__u64 past_bytes;     /* that were asked for by these */
	__u64 unsized;        /* those of which that is not known */
	__u32 account, pad;
	__u64 classes[CLASSES];
};

/* The tables in which accounts have shares. */
enum interception_table { INTERCEPTIONS, CALLERS, BETWEEN };

_Static_assert(sizeof(struct interception_key) == 16, "as in src/activity/interception/tables.rs");
_Static_assert(sizeof(struct interception) == 1384, "as in src/activity/interception/tables.rs");
