/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel side of `gpumap activity` shares with user space: the words of
 * a cookie, the tables' keys and values. src/activity has the same numbers
 * (`cookie.rs`, `layout.rs`), and tests compare the sizes.
 */
#pragma once

#include <linux/types.h>

/* What a function does. */
enum activity_kind {
	LAUNCH = 1,
	LAUNCH_CONFIG = 2,   /* the stream is in a structure */
	LAUNCH_GRAPH = 3,
	HOST_FUNCTION = 4,
	COPY = 5,
	COPY_STRUCT_2D = 6,
	COPY_STRUCT_3D = 7,
	COPY_BATCH = 8,
	FILL = 9,
	ALLOCATE = 10,
	FREE = 11,
	WAIT_STREAM = 12,
	WAIT_CONTEXT = 13,
	WAIT_EVENT = 14,
	QUERY_STREAM = 15,
	QUERY_EVENT = 16,
	RECORD_EVENT = 17,
	STREAM_WAITS = 18,   /* a stream waits for an event; no thread does */
	CREATE_STREAM = 19,  /* from here on: nothing that is handed to a stream */
	DESTROY_STREAM = 20,
	SET_CONTEXT = 21,
	PUSH_CONTEXT = 22,
	POP_CONTEXT = 23,
	GET_CONTEXT = 24,
	CREATE_CONTEXT = 25,
	DESTROY_CONTEXT = 26,
	RETAIN_PRIMARY = 27,
	RELEASE_PRIMARY = 28,
	RESET_PRIMARY = 29,
	NAME_DEVICE = 30,
	BEGIN_CAPTURE = 31,
	END_CAPTURE = 32,
	INSTANTIATE = 33,
	UPDATE_GRAPH = 34,
	SET_DEVICE = 35,     /* HIP: of the thread */
	GET_DEVICE = 36,
	DESTROY_EVENT = 37,
	DESTROY_GRAPH = 38,  /* or one that can be launched */
};

/* The fields of a cookie: the lowest bit of each, and its mask. Arguments are
 * numbers of arguments; NO_ARGUMENT is none. */
#define COOKIE_KIND(cookie) ((cookie) & 255)
#define COOKIE_STREAM(cookie) ((cookie) >> 8 & 15)
#define COOKIE_SIZE(cookie) ((cookie) >> 12 & 15)
#define COOKIE_TIMES(cookie) ((cookie) >> 16 & 15)
#define COOKIE_POINTER(cookie) ((cookie) >> 20 & 15)
#define COOKIE_EXTRA(cookie) ((cookie) >> 24 & 15)
#define COOKIE_DIRECTION(cookie) ((cookie) >> 28 & 7)
#define COOKIE_PER_THREAD(cookie) ((cookie) >> 31 & 1)
#define COOKIE_UNIT(cookie) ((cookie) >> 32 & 3)
#define COOKIE_HIP(cookie) ((cookie) >> 34 & 1)
#define COOKIE_WAITS(cookie) ((cookie) >> 35 & 1)
#define COOKIE_MEMORY(cookie) ((cookie) >> 36 & 3)
/* Which attachment it is: index of `attached`. The bits above say which function it is,
 * to user space alone. */
#define COOKIE_LINK(cookie) ((cookie) >> 40 & (LINKS - 1))
#define NO_ARGUMENT 15
#define LINKS 4096

enum direction { TO_DEVICE, FROM_DEVICE, ON_DEVICE, UNKNOWN_DIRECTION, DIRECTION_ARGUMENT };
enum memory { DEVICE_MEMORY, MANAGED_MEMORY, HOST_MEMORY, PHYSICAL_MEMORY };

/* Handles of streams that are no addresses. STREAM_OTHERS is of this file: the
 * streams of a process beyond the first MOST_STREAMS, and launches whose streams are not
 * told apart. */
#define STREAM_LEGACY 0
#define STREAM_LEGACY_NAMED 1
#define STREAM_PER_THREAD 2
#define STREAM_OTHERS 3
/* Of a call under way: a launch whose stream is not read. */
#define STREAM_UNREAD 4

/* HIP has no contexts: this bit and the ordinal, counted from 1; 0 is a device
 * that is not known. */
#define HIP_CONTEXT (1ULL << 63)
#define UNKNOWN_DEVICE 0xffffffff
/* A context is called by its address. When a context is gone, one of another device may
 * come to its address: how many did so stands above the bits of addresses. */
#define RENAMED_SHIFT 48
#define MOST_RENAMED 0x7fff
/* Handles of physical memory are no addresses; this tells them apart. */
#define PHYSICAL_BIT (1ULL << 63)

/* CUDA_ERROR_NOT_READY and hipErrorNotReady: an answer. */
#define NOT_READY 600

/* The tables in which accounts have shares: the index in all arrays of ROOMS. Records and
 * batches are no tables; what is lost of them is counted with the rest. */
enum activity_table {
	PROCESSES, THREADS, CONTEXTS, STREAMS, BLOCKS, EVENTS, GRAPHS, ERRORS, DEVICES, RECORDS, BATCHES,
	CAPTURES, OUTSIDE,
};
#define ROOMS 16

/* Entries of one process. More streams are summed up in one for each context, more of the
 * others are counted as lost. */
#define MOST_STREAMS 2048
#define MOST_CONTEXTS 512
#define MOST_BLOCKS (1 << 18)
#define MOST_ERRORS 64
#define MOST_DEVICES 64
/* As many as its account may have. */
#define ANY_NUMBER 0xffffffff

/* The account of all users for whom `accounts` has no room, and what all have together. The
 * kernel gives these numbers to nobody. */
#define OTHERS 0xffffffff
#define EVERYBODY 0xfffffffe

/* What an account found no room for, and the entries that it was given. Those that user space
 * took out again are in `activity_returned`: each side writes its own. */
struct activity_account { __u64 lost[ROOMS]; __u32 held[ROOMS]; };
struct activity_returned { __u32 entries[ROOMS]; };

/* Classes of durations: the first takes what is below 2^FIRST_DURATION_BITS ns. */
#define DURATIONS 16
#define FIRST_DURATION_BITS 7

/* A process from its first call to its end or its next execve. All keys begin
 * with its id, which is never used again. */
struct activity_process {
	__u64 start;          /* CLOCK_BOOTTIME */
	__u64 cgroup;         /* cgroup2 id */
	__u64 first;          /* CLOCK_MONOTONIC, as all times here but `start` */
	__u64 ended;          /* 0: it lives */
	__u32 pid;            /* 0: not filled in yet */
	__u32 uid;
	__u32 account;        /* the user who answers for it: see account_of */
	__u32 executed;       /* whether it ended by execve */
	__u32 link;           /* COOKIE_LINK of its first call */
	__u32 outside;        /* whether it called before it came into scope */
	__u32 lost;           /* a bit for each table that had no room for something of it */
	__u32 forgot;         /* the same of what may be asked for later */
	char comm[16];
	__u32 held[ROOMS];    /* its entries */
};

struct activity_context_key { __u64 process, context; };
struct activity_context {
	__u64 allocations, frees, failed, waits, wait_ns;
	__s64 bytes[4];       /* by enum memory */
	__s64 peak;           /* of device and physical memory */
	__u32 device;         /* ordinal, counted from 1; 0: not known */
	__u32 retained;
	__u64 lives;          /* goes up when its memory is freed as a whole */
	__u32 blocks[4];      /* that are allocated, by enum memory */
	__u32 renamed;        /* of the first context at an address: see RENAMED_SHIFT */
	__u32 gone;           /* whether it was destroyed */
};

/* The context of a stream with a handle of its own stands in the value. */
struct activity_stream_key { __u64 process, context, stream; };
struct activity_stream {
	__u64 launches, graph_launches, graph_kernels, captured, host_functions;
	__u64 copies, copied[4], copy_wait_ns;
	__u64 fills, fill_bytes;
	__u64 waits, wait_ns, queries, errors;
	__u64 durations[DURATIONS];
	/* Up to here all is a sum. */
	__u64 first, last;
	__u64 context;
	__u64 capturing;      /* streams of this key that capture */
	__u64 tick;           /* jiffies when `last` was brought up to date by a launch that is not timed */
};
#define STREAM_SUMS (17 + DURATIONS)

struct activity_error_key { __u64 process; __u32 hip, code; };
struct activity_device_key { __u64 process; __u32 hip, ordinal; };
struct activity_device {
	__u8 uuid[16];
	__u64 primary;        /* its primary context */
	__u32 named;          /* 0: no UUID yet, 1: one, 2: perhaps of a MIG instance */
	__u32 pad;
};

/* An allocation. */
struct block { __u64 size, context, lives; __u32 memory, pad; };

/* Launches of a thread that are in the sums of no stream yet: in one context. `tick` is
 * jiffies when `last` was brought up to date. */
struct launches {
	__u64 context, count, first, last, tick;
	__u64 durations[DURATIONS];
};

/* A thread: its contexts, and the call that it is in. */
#define STACK 8
struct thread {
	__u64 process;
	__u64 contexts[STACK];
	__u32 account;        /* its process's */
	__u32 depth;          /* may be more than are kept */
	__u32 hip_device;
	__u32 apart;          /* whether launches are told apart by stream */
	__u32 every, countdown;
	__u64 stack;          /* 0: in no call */
	__u64 cookie, entered, stream, size, pointer, extra;
	struct block taken;
	__u64 flushes;        /* odd while `launches` are added to the sums of streams */
	struct launches launches;
};

/* Of processes in scope. */
enum life { LIFE_EXEC = 1, LIFE_EXIT = 2, LIFE_FORK = 3, LIFE_CALL = 4 /* its first one */ };
struct activity_life {
	__u64 start, at;      /* CLOCK_BOOTTIME */
	__u64 cgroup;         /* cgroup2 id */
	__u32 kind, pid, parent, account;
};

_Static_assert(sizeof(struct activity_process) == 144, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct thread) == 360, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct activity_account) == 192, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct activity_returned) == 64, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct activity_context) == 120, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct activity_stream) == 304, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct activity_device) == 32, "as in src/activity/layout.rs");
_Static_assert(sizeof(struct activity_life) == 40, "as in src/activity/layout.rs");
_Static_assert(__builtin_offsetof(struct activity_stream, first) == STREAM_SUMS * 8, "sums come first");
