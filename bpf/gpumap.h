/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel side of `gpumap watch` writes into the ring: shared with
 * src/watch/source/record/mod.rs, which has the same numbers and tests the sizes.
 */
#pragma once

/* Bytes of a variable's name with its end: longer than every name that is
 * looked for, so that a name that fills the buffer is none of them. */
#define NAME_SIZE 48
/* Bytes that are kept of a value. */
#define VALUE_LIMIT 4096
/* One byte more tells a value that is longer, one is the end. */
#define VALUE_SIZE (VALUE_LIMIT + 2)
/* Most values are short, nearly all fit into some hundred bytes: so are their
 * records, that the ring holds many. */
#define SHORT_SIZE 66
#define MIDDLE_SIZE 402
#define COMM_SIZE 16

enum kind {
	SETENV = 1,
	PUTENV = 2,
	UNSETENV = 3,
	CLEARENV = 4,
	EXEC = 5,
	EXIT = 6,
	FORK = 7,
	CU_INIT = 8,
	HIP_INIT = 9,
	HSA_INIT = 10,
	/* A variable that the next EXEC of the process begins with. */
	EXEC_VARIABLE = 11,
	/* A call that changed a variable whose name could not be read: `result` is
	 * its kind. */
	UNNAMED = 12,
	/* It is in another cgroup of cgroup2 now: the header's. `result` is 0 for
	 * the whole process, else the one thread that moved. */
	MOVED = 13,
};

enum flag {
	/* setenv was told to leave a variable alone that is set. */
	KEEP = 1,
	/* The value is longer than what was kept. */
	CUT = 2,
	/* The value could not be read. */
	UNREAD = 4,
	/* EXEC: its variables were told before it, all of them. */
	WHOLE = 8,
	/* MOVED: it is new, and began in another cgroup than its parent's. */
	BORN = 16,
};

/* The upper half of the flags. EXEC_VARIABLE: how many were told before it,
 * EXEC: how many all in all. */
#define NUMBER_SHIFT 8

/* Whom an event is about; all of a record that has no variable. */
struct header {
	__u64 at;        /* CLOCK_BOOTTIME, nanoseconds */
	__u64 start;     /* start of the process, the same clock */
	__u64 cgroup;    /* cgroup2 id */
	__u32 pid;       /* the process */
	__u32 lost;      /* low half of how many records of its account were lost
			  * before it */
	__u32 uid;       /* effective */
	__u32 account;   /* the user who answers for it: see bpf/account.h */
	__u16 kind;
	__u16 flags;
	__s32 result;    /* of a driver's function; FORK: the parent's pid;
			  * EXEC: the low half of where the environment ends */
	char comm[COMM_SIZE];
};

/* FORK. The parent's pid alone would not tell it from one that ended unseen. */
struct forked {
	struct header header;
	__u64 parent_start;
};

/* MOVED. */
struct moved {
	struct header header;
	__u64 from;      /* cgroup2 id of before; 0 if that is not known */
};

/* A name, filled up with zeros. */
struct name {
	char text[NAME_SIZE];
};

/* A variable is told by its index in VARIABLES of
 * src/model/environment.rs, which user space puts into the map. */
struct short_change {
	struct header header;
	__u16 variable;
	__u16 length;    /* bytes of value, without its end */
	char value[SHORT_SIZE];
	__u16 pad;
};

struct change {
	struct header header;
	__u16 variable;
	__u16 length;    /* bytes of value, without its end */
	char value[MIDDLE_SIZE];
	__u16 pad;
};

struct long_change {
	struct header header;
	__u16 variable;
	__u16 length;    /* bytes of value, without its end */
	char value[VALUE_SIZE];
	__u16 pad;
};

_Static_assert(sizeof(struct header) == 64, "as in src/watch/source/record/mod.rs");
_Static_assert(sizeof(struct forked) == 72, "as in src/watch/source/record/mod.rs");
_Static_assert(sizeof(struct moved) == 72, "as in src/watch/source/record/mod.rs");
_Static_assert(sizeof(struct short_change) == 136, "as in src/watch/source/record/mod.rs");
_Static_assert(sizeof(struct change) == 472, "as in src/watch/source/record/mod.rs");
_Static_assert(sizeof(struct long_change) == 4168, "as in src/watch/source/record/mod.rs");
