/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Allocations: what each context has now, had at most, and which blocks these
 * are.
 */
#pragma once

#include "activity_thread.h"

static __always_inline struct activity_context *context_sums(__u64 process, __u64 context)
{
	struct activity_context_key key = { process, context };
	struct activity_context *sums = FIND_MAKE_OR_LOSE(contexts, &key, process, CONTEXTS, MOST_CONTEXTS);

	/* HIP's device is part of the key. */
	if (sums && context & HIP_CONTEXT)
		sums->device = context;
	return sums;
}

/* How the context at an address is called. */
static __always_inline __u64 context_at(__u64 process, __u64 address)
{
	struct activity_context_key key = { process, address };
	struct activity_context *first = address ? bpf_map_lookup_elem(&contexts, &key) : 0;

	return first ? address | (__u64)first->renamed << RENAMED_SHIFT : address;
}

static __always_inline struct object_key block_key(__u64 process, __u64 address, __u32 memory)
{
	struct object_key key = { process, memory == PHYSICAL_MEMORY ? address | PHYSICAL_BIT : address };

	return key;
}

/* Several threads may raise it at once. */
static __always_inline void raise_peak(struct activity_context *sums, __s64 bytes)
{
	for (int attempt = 0; attempt < 8; attempt++) {
		__s64 peak = *(volatile __s64 *)&sums->peak;

		if (bytes <= peak || __sync_val_compare_and_swap(&sums->peak, peak, bytes) == peak)
			return;
	}
}

static __always_inline void allocated(struct thread *thread, int result)
{
	__u64 process = thread->process, context = current_context(thread), size = thread->size;
	__u32 memory = COOKIE_MEMORY(thread->cookie);
	struct activity_context *sums = context_sums(process, context);
	struct object_key key;
	__u64 address;

	if (!sums)
		return;
	if (result) {
		add(&sums->failed, 1);
		return;
	}
	add(&sums->allocations, 1);
	/* The pitch is known now; `extra` is the address of where it is. */
	if (COOKIE_EXTRA(thread->cookie) != NO_ARGUMENT)
		size *= read_user(thread->extra);
	address = read_user(thread->pointer);
	key = block_key(process, address, memory);
	struct block block = { .size = size, .context = context, .lives = sums->lives, .memory = memory };

	/* One that is there already was freed with its context. */
	if (!address || !KEEP(blocks, &key, &block, process, BLOCKS, MOST_BLOCKS)) {
		lose(process, BLOCKS);
		return;
	}
	__sync_fetch_and_add(&sums->blocks[memory & 3], 1);
	__s64 before = __sync_fetch_and_add(&sums->bytes[memory & 3], size);

	if (memory == DEVICE_MEMORY || memory == PHYSICAL_MEMORY)
		raise_peak(sums, before + size +
			   sums->bytes[memory == DEVICE_MEMORY ? PHYSICAL_MEMORY : DEVICE_MEMORY]);
}

/* A block is taken out of the table before the driver frees it: once it has,
 * another thread may be given the same address, and its return may be seen
 * first. */
static __always_inline void take_block(struct thread *thread)
{
	__u32 memory = COOKIE_MEMORY(thread->cookie);
	struct object_key key = block_key(thread->process, thread->pointer, memory);
	struct block *block = bpf_map_lookup_elem(&blocks, &key);

	if (!block) {
		thread->taken.lives = ~0ULL;
		return;
	}
	thread->taken = *block;
	/* Its room is given back when it is free. */
	bpf_map_delete_elem(&blocks, &key);
}

/* The block goes back if the driver did not free it. */
static __always_inline void freed(struct thread *thread, int result)
{
	struct block *taken = &thread->taken;
	struct object_key key;
	struct activity_context *sums;

	if (taken->lives == ~0ULL)
		return;
	if (result) {
		key = block_key(thread->process, thread->pointer, taken->memory);
		bpf_map_update_elem(&blocks, &key, taken, BPF_NOEXIST);
		return;
	}
	give_back(thread->process, BLOCKS);
	sums = context_sums(thread->process, taken->context);
	/* What its context freed as a whole was settled then. */
	if (!sums || sums->lives != taken->lives)
		return;
	add(&sums->frees, 1);
	__sync_fetch_and_add(&sums->blocks[taken->memory & 3], -1);
	__sync_fetch_and_add(&sums->bytes[taken->memory & 3], -(__s64)taken->size);
}

/* A context is destroyed or reset: its memory is free. Physical memory belongs
 * to the device. */
static __always_inline void freed_all(struct activity_context *sums)
{
	add(&sums->lives, 1);
	for (int memory = DEVICE_MEMORY; memory <= HOST_MEMORY; memory++) {
		add(&sums->frees, sums->blocks[memory]);
		sums->blocks[memory] = 0;
		sums->bytes[memory] = 0;
	}
}
