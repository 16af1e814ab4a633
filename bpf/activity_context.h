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

	return FIND_OR_MAKE(devices, &key, LOST_DEVICES);
}

static __always_inline struct activity_context *known_context(struct thread *thread, __u64 context,
							      __u32 ordinal)
{
	struct activity_context *sums = context ? context_sums(thread->process, context) : 0;

	if (sums)
		sums->device = ordinal + 1;
	return sums;
}

/* The driver says which context the thread has. */
static __always_inline void got_context(struct thread *thread)
{
	__u64 context = read_user(thread->pointer);

	if (!context)
		thread->depth = 0;
	else if (context != current_context(thread))
		set_context(thread, context);
}

/* The new context becomes the thread's. */
static __always_inline void created_context(struct thread *thread)
{
	__u64 context = read_user(thread->pointer);

	known_context(thread, context, thread->extra);
	push_context(thread, context);
}

static __always_inline void destroyed_context(struct thread *thread)
{
	if (current_context(thread) == thread->extra)
		pop_context(thread);
	freed_all(thread->process, thread->extra);
}

static __always_inline void retained_primary(struct thread *thread)
{
	__u64 context = read_user(thread->pointer);
	struct activity_context *sums = known_context(thread, context, thread->extra);
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
	freed_all(thread->process, key.context);
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
		context = thread->extra;
	sums = waited ? context_sums(thread->process, context) : 0;
	if (!sums)
		return;
	add(&sums->waits, 1);
	add(&sums->wait_ns, took);
}
