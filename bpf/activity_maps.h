/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The tables of `gpumap activity`. None of them grows beyond its size, and no user takes
 * another one's room: see activity_room.h.
 */
#pragma once

#include "helpers.h"
#include "activity.h"

/* How many entries each table has at most. */
#define ROOM_PROCESSES 16384
#define ROOM_THREADS 65536
#define ROOM_CONTEXTS 16384
#define ROOM_STREAMS 65536
#define ROOM_BLOCKS (1 << 20)
#define ROOM_EVENTS (1 << 17)
#define ROOM_GRAPHS 32768
#define ROOM_ERRORS 16384
#define ROOM_DEVICES 16384
#define ROOM_CAPTURES 16384
#define ROOM_OUTSIDE 16384

static __always_inline __u32 room_of(__u32 table)
{
	switch (table) {
	case PROCESSES: return ROOM_PROCESSES;
	case THREADS: return ROOM_THREADS;
	case CONTEXTS: return ROOM_CONTEXTS;
	case STREAMS: return ROOM_STREAMS;
	case BLOCKS: return ROOM_BLOCKS;
	case EVENTS: return ROOM_EVENTS;
	case GRAPHS: return ROOM_GRAPHS;
	case ERRORS: return ROOM_ERRORS;
	case DEVICES: return ROOM_DEVICES;
	case CAPTURES: return ROOM_CAPTURES;
	case OUTSIDE: return ROOM_OUTSIDE;
	}
	return 0;
}
#define ROOM_OF room_of

#include "shares.h"

/* Something by its address or handle. */
struct object_key { __u64 process, address; };
/* Where an event was recorded last, and by which capture. */
struct recorded { struct activity_stream_key at; __u64 origin, capture; };
/* A stream that is captured; `origin` is where the capture began. */
struct capture { __u64 origin, number, kernels; };

/* Settings: 0: one launch out of so many is timed. 2: whether launches are told apart by
 * stream. */
/* Reasons to read the streams of launches of living processes, by the pid's last bits. */
#define REASONS 4096
TABLE(reasons, BPF_MAP_TYPE_ARRAY, 0, REASONS, __u32, __u32);
/* How often processes were moved to another cgroup: whoever was out of scope may be in it. */
TABLE(moves, BPF_MAP_TYPE_ARRAY, 0, 1, __u32, __u64);
/* Threads that are not followed, by the number's last bits: see activity_alone.h. */
#define ALONE 16384
TABLE(alone, BPF_MAP_TYPE_ARRAY, 0, ALONE, __u32, __u64);
/* When each attachment was made (CLOCK_BOOTTIME). */
TABLE(attached, BPF_MAP_TYPE_ARRAY, 0, LINKS, __u32, __u64);

/* The id of a process by its pid: no more than there are processes. */
TABLE(current, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_PROCESSES, __u32, __u64);
/* Processes that called a driver while they were out of scope: their accounts. */
TABLE(outside, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_OUTSIDE, __u32, __u32);

TABLE(processes, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_PROCESSES, __u64, struct activity_process);
TABLE(threads, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_THREADS, __u32, struct thread);
TABLE(contexts, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_CONTEXTS, struct activity_context_key,
      struct activity_context);
TABLE(streams, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_STREAMS, struct activity_stream_key,
      struct activity_stream);
TABLE(blocks, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_BLOCKS, struct object_key, struct block);
TABLE(errors, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_ERRORS, struct activity_error_key, __u64);
TABLE(devices, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_DEVICES, struct activity_device_key,
      struct activity_device);
TABLE(events, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_EVENTS, struct object_key, struct recorded);
TABLE(graphs, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_GRAPHS, struct object_key, __u64);
TABLE(captures, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_CAPTURES, struct object_key, struct capture);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} lives SEC(".maps");
