/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Contexts and their devices: made, destroyed, current in a thread, and how the
 * driver names devices.
 */
#pragma once

#include "activity_stream.h"

static __always_inline struct activity_device *device_of(struct thread *thread, __u32 ordinal)
{
	struct activity_device_key key = { thread->process, COOKIE_HIP(thread->cookie), ordinal };

	return FIND_MAKE_OR_LOSE(devices, &key, thread->process, DEVICES, MOST_DEVICES);
}

/* The context at an address is of this device. Another one that was there is gone, and
 * keeps what it did. Its name, and its sums if they have room. */
static __always_inline __u64 known_context(struct thread *thread, __u64 address, __u32 ordinal,
					   struct activity_context **found)
{
	struct activity_context_key key = { thread->process, address };
	__u64 context = context_at(thread->process, address);
	struct activity_context *sums = address ? context_sums(thread->process, context) : 0;

	if (sums && sums->device && sums->device != ordinal + 1) {
		struct activity_context *first = bpf_map_lookup_elem(&contexts, &key);

		if (first && first->renamed < MOST_RENAMED) {
			__sync_fetch_and_add(&first->renamed, 1);
			context = context_at(thread->process, address);
			sums = context_sums(thread->process, context);
		}
	}
	if (sums)
		sums->device = ordinal + 1;
	*found = sums;
	return context;
}

/* The driver says which context the thread has. */
static __always_inline void got_context(struct thread *thread)
{
	__u64 context = context_at(thread->process, read_user(thread->pointer));

	if (!context)
		thread->depth = 0;
	else if (context != current_context(thread))
		set_context(thread, context);
}

/* The new context becomes the thread's. One that was at its address is gone, though its
 * end may not have been seen yet. */
static __always_inline void created_context(struct thread *thread)
{
	struct activity_context *sums;
	__u64 context = known_context(thread, read_user(thread->pointer), thread->extra, &sums);

	if (sums && !sums->gone)
		freed_all(sums);
	if (sums)
		sums->gone = 0;
	push_context(thread, context);
}

/* At the entry: which context it is, and which of its lives ends. Another thread may be
 * given the same address before the return is seen. */
static __always_inline void destroying_context(struct thread *thread)
{
	struct activity_context_key key = { thread->process, context_at(thread->process, thread->extra) };
	struct activity_context *sums = bpf_map_lookup_elem(&contexts, &key);

	thread->extra = key.context;
	thread->size = sums ? sums->lives : 0;
}

static __always_inline void destroyed_context(struct thread *thread)
{
	struct activity_context_key key = { thread->process, thread->extra };
	struct activity_context *sums = bpf_map_lookup_elem(&contexts, &key);

	if (current_context(thread) == key.context)
		pop_context(thread);
	if (!sums || sums->lives != thread->size)
		return;
	freed_all(sums);
	sums->gone = 1;
}

static __always_inline void retained_primary(struct thread *thread)
{
	struct activity_context *sums;
	__u64 context = known_context(thread, read_user(thread->pointer), thread->extra, &sums);
	struct activity_device *device = device_of(thread, thread->extra);

	if (sums)
		__sync_fetch_and_add(&sums->retained, 1);
	if (device)
		device->primary = context;
}

/* A primary context ends when nobody retains it any more, or by a reset. */
static __always_inline void gave_up_primary(struct thread *thread, __u32 kind)
{
	struct activity_device *device = device_of(thread, thread->extra);
	struct activity_context_key key = { thread->process, 0 };
	struct activity_context *sums;

	if (!device || !device->primary)
		return;
	key.context = device->primary;
	sums = bpf_map_lookup_elem(&contexts, &key);
	if (!sums)
		return;
	if (kind == RELEASE_PRIMARY) {
		/* Retained before it was counted. */
		if (!sums->retained || __sync_fetch_and_add(&sums->retained, -1) > 1)
			return;
	}
	freed_all(sums);
}

/* `size` is 2 for the function that may name a MIG instance. Its answer goes
 * before that of the other one. */
static __always_inline void named_device(struct thread *thread)
{
	struct activity_device *device = device_of(thread, thread->extra);
	__u32 named = COOKIE_UNIT(thread->cookie);

	if (!device || device->named > named)
		return;
	if (!bpf_probe_read_user(device->uuid, sizeof(device->uuid), (void *)thread->pointer))
		device->named = named;
}

/* The thread waited for all that its context has, or for something of it that is
 * not known. */
static __always_inline void wait_in_context(struct thread *thread, int waited, __u64 took)
{
	__u64 context = current_context(thread);
	struct activity_context *sums;

	/* cuCtxSynchronize_v2 names the context. */
	if (COOKIE_EXTRA(thread->cookie) != NO_ARGUMENT && thread->extra)
		context = context_at(thread->process, thread->extra);
	sums = waited ? context_sums(thread->process, context) : 0;
	if (!sums)
		return;
	add(&sums->waits, 1);
	add(&sums->wait_ns, took);
}
