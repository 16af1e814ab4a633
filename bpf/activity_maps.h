/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The tables of `gpumap activity`. None of them grows beyond its size; what
 * finds no room is counted in `lost` by table.
 */
#pragma once

#include "scope.h"
#include "task.h"
#include "activity.h"

#define TABLE(name, kind, flags, most, key_type, value_type) \
	struct {                                             \
		__uint(type, kind);                          \
		__uint(map_flags, flags);                    \
		__uint(max_entries, most);                   \
		__type(key, key_type);                       \
		__type(value, value_type);                   \
	} name SEC(".maps")

/* Something by its address or handle. */
struct object_key { __u64 process, address; };
/* An allocation. */
struct block { __u64 size, context, lives; __u32 memory, pad; };
/* Where an event was recorded last, and by which capture. */
struct recorded { struct activity_stream_key at; __u64 origin, capture; };
/* A stream that is captured; `origin` is where the capture began. */
struct capture { __u64 origin, number, kernels; };

/* A thread: its contexts, and the call that it is in. */
#define STACK 8
struct thread {
	__u64 process;
	__u64 contexts[STACK];
	__u32 depth;          /* may be more than are kept */
	__u32 hip_device;
	__u32 every, countdown;
	__u64 stack;          /* 0: in no call */
	__u64 cookie, entered, stream, size, pointer, extra;
	struct block taken;
};

/* 0: one launch out of so many is timed. */
TABLE(settings, BPF_MAP_TYPE_ARRAY, 0, 1, __u32, __u64);
/* When each attachment was made (CLOCK_BOOTTIME). */
TABLE(attached, BPF_MAP_TYPE_ARRAY, 0, LINKS, __u32, __u64);
/* Zeros: what entries begin with. */
struct zeros { __u64 words[64]; };
TABLE(nothing, BPF_MAP_TYPE_ARRAY, 0, 1, __u32, struct zeros);
TABLE(lost_room, BPF_MAP_TYPE_ARRAY, 0, LOST_KINDS, __u32, __u64);

/* The id of a process by its pid. */
TABLE(current, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 16384, __u32, __u64);
/* Processes that called a driver while they were out of scope. */
TABLE(outside, BPF_MAP_TYPE_LRU_HASH, 0, 16384, __u32, __u32);
TABLE(processes, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 16384, __u64, struct activity_process);
TABLE(threads, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 65536, __u32, struct thread);
TABLE(contexts, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 16384, struct activity_context_key,
      struct activity_context);
TABLE(streams, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 32768, struct activity_stream_key,
      struct activity_stream);
TABLE(blocks, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 1 << 20, struct object_key, struct block);
TABLE(errors, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 16384, struct activity_error_key, __u64);
TABLE(devices, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, 16384, struct activity_device_key,
      struct activity_device);
/* What these forget was used long ago. What is missing then is counted as lost, if it may
 * have been there: see `forgotten`. */
#define MOST_EVENTS 65536
#define MOST_GRAPHS 16384
TABLE(events, BPF_MAP_TYPE_LRU_HASH, 0, MOST_EVENTS, struct object_key, struct recorded);
TABLE(graphs, BPF_MAP_TYPE_LRU_HASH, 0, MOST_GRAPHS, struct object_key, __u64);
/* How many entries they were given, by the index of `lost_room`. */
TABLE(given, BPF_MAP_TYPE_ARRAY, 0, LOST_KINDS, __u32, __u64);
TABLE(captures, BPF_MAP_TYPE_LRU_HASH, 0, 16384, struct object_key, struct capture);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} lives SEC(".maps");

static __always_inline void add(__u64 *sum, __u64 value)
{
	__sync_fetch_and_add(sum, value);
}

static __always_inline void lose(__u32 what)
{
	__u64 *number = bpf_map_lookup_elem(&lost_room, &what);

	if (number)
		add(number, 1);
}

static __always_inline void gave(__u32 what)
{
	__u64 *number = bpf_map_lookup_elem(&given, &what);

	if (number)
		add(number, 1);
}

/* A table has no entry of something. Once it was given half of what it holds, it may have
 * forgotten it: each CPU keeps some free entries to itself, so it forgets before it is
 * full. */
static __always_inline void forgotten(__u32 what, __u64 most)
{
	__u64 *number = bpf_map_lookup_elem(&given, &what);

	if (number && *number >= most / 2)
		lose(what);
}

/* Zeros for a new entry. */
static __always_inline void *zeros(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nothing, &zero);
}

/* The entry of a key, and a new one if there is none; counts a loss if there is
 * no room. */
#define FIND_OR_MAKE(table, key, what) ({                                        \
	void *value_ = bpf_map_lookup_elem(&table, key);                         \
	void *zeros_ = value_ ? (void *)0 : zeros();                             \
	if (zeros_) {                                                            \
		bpf_map_update_elem(&table, key, zeros_, BPF_NOEXIST);           \
		value_ = bpf_map_lookup_elem(&table, key);                       \
		if (!value_)                                                     \
			lose(what);                                              \
	}                                                                        \
	value_; })
