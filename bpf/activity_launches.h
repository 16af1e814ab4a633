/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Launches that are counted by context alone. The argument that names the stream lies on
 * the process's stack: reading it takes longer than all the rest of counting. So it is read
 * where streams are told apart, while something of the process is captured, when the stream
 * says whether a kernel runs, and of processes with several contexts, when it says in which
 * one. All others are counted in the entry of their thread,
 * and added to the sums of the context's other streams when the thread goes on with another
 * context or ends. User space adds what the entries of living threads have.
 */
#pragma once

#include "activity_room.h"

/* The class of a duration. */
static __always_inline __u32 class_of(__u64 duration)
{
	__u64 value = duration >> FIRST_DURATION_BITS;
	__u32 class = 0;

	if (value >> (DURATIONS - 2))
		return DURATIONS - 1;
	if (value >> 8) { class += 8; value >>= 8; }
	if (value >> 4) { class += 4; value >>= 4; }
	if (value >> 2) { class += 2; value >>= 2; }
	if (value >> 1) { class += 1; value >>= 1; }
	return (class + (__u32)value) & (DURATIONS - 1);
}

/* Adds what a thread launched to the sums of its context. `flushes` is odd meanwhile: user
 * space reads none of it then. */
static __attribute__((noinline)) int flush_launches(struct thread *thread)
{
	struct launches *all = &thread->launches;
	struct activity_stream_key key = { thread->process, all->context, STREAM_OTHERS };
	struct activity_stream *sums;

	if (!all->count)
		return 0;
	__sync_fetch_and_add(&thread->flushes, 1);
	sums = FIND_MAKE_OR_LOSE(streams, &key, thread->process, STREAMS, MOST_STREAMS + MOST_CONTEXTS);
	if (sums) {
		sums->context = all->context;
		add(&sums->launches, all->count);
		for (int class = 0; class < DURATIONS; class++)
			if (all->durations[class])
				add(&sums->durations[class], all->durations[class]);
		if (all->last > sums->last)
			sums->last = all->last;
		if (!sums->first || all->first < sums->first)
			sums->first = all->first;
	}
	all->count = all->first = all->last = all->tick = 0;
	for (int class = 0; class < DURATIONS; class++)
		all->durations[class] = 0;
	__sync_fetch_and_add(&thread->flushes, 1);
	return 0;
}

/* Whether the stream of a launch is of interest. Of a thread that has no context the stream
 * alone tells it; what a thread chose before it was counted is not known. */
static __always_inline int reads_stream(struct thread *thread, __u32 pid, __u64 context)
{
	__u32 slot = pid & (REASONS - 1);
	__u32 *now = bpf_map_lookup_elem(&reasons, &slot);

	return thread->apart || !now || *(volatile __u32 *)now ||
		(!context && thread->hip_device != UNKNOWN_DEVICE);
}

static __always_inline struct launches *launches_in(struct thread *thread, __u64 context)
{
	struct launches *all = &thread->launches;

	if (all->context != context) {
		flush_launches(thread);
		all->context = context;
	}
	return all;
}

/* A launch that is not timed: of these, the first in each tick of the kernel's clock (1 to
 * 10 ms) says when it was. */
static __always_inline void launch_here(struct thread *thread, __u64 context)
{
	struct launches *all = launches_in(thread, context);
	__u64 tick = bpf_jiffies64();

	all->count++;
	if (all->tick == tick)
		return;
	all->tick = tick;
	all->last = bpf_ktime_get_ns();
	if (!all->first)
		all->first = all->last;
}

/* One that was timed, and succeeded. */
static __always_inline void launched_here(struct thread *thread, __u64 context, __u64 now)
{
	struct launches *all = launches_in(thread, context);

	all->count++;
	all->durations[class_of(now - thread->entered)]++;
	all->last = now;
	if (!all->first)
		all->first = now;
}
