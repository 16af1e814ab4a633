/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that are not followed: that is looked up once in each tick of the kernel's clock
 * (1 to 10 ms), and whenever somebody was moved to another cgroup. It is remembered in one
 * word, so that a call of such a thread costs little: the thread's number, and the last bits
 * of the tick and of the number of moves.
 */
#pragma once

#include "activity_maps.h"

/* The kernel has at most 2^22 numbers of threads. */
#define TID_BITS 22
#define TICK_BITS 21
#define TID_MASK ((1ULL << TID_BITS) - 1)
#define TICK_MASK ((1ULL << TICK_BITS) - 1)

static __always_inline __u64 number_of_moves(void)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&moves, &zero);

	return number ? *(volatile __u64 *)number : 0;
}

static __always_inline __u64 alone_now(__u64 id, __u64 moved)
{
	return (id & TID_MASK) | (bpf_jiffies64() & TICK_MASK) << TID_BITS | moved << (TID_BITS + TICK_BITS);
}

/* Whether the current thread is known as one that is not followed; `id` is what
 * bpf_get_current_pid_tgid gives. */
static __always_inline int is_left_alone(__u64 id)
{
	__u32 slot = id & (ALONE - 1);
	__u64 *word = bpf_map_lookup_elem(&alone, &slot), known = word ? *(volatile __u64 *)word : 0;

	return !((known ^ id) & TID_MASK) && known == alone_now(id, number_of_moves());
}

/* It is not followed; `moved` is how many had been moved when that was looked up. */
static __always_inline void leave_alone(__u64 id, __u64 moved)
{
	__u32 slot = id & (ALONE - 1);
	__u64 *word = bpf_map_lookup_elem(&alone, &slot);

	if (word)
		*(volatile __u64 *)word = alone_now(id, moved);
}
