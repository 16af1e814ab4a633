/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * How many bytes a call is about, and of copies by structure in which direction.
 */
#pragma once

#include "activity_context.h"

/* CUmemorytype. */
#define HOST_TYPE 1
#define EITHER_TYPE 4

/* CUDA_MEMCPY2D has the types of memory at 16 and 72, width and height at 112
 * and 120; CUDA_MEMCPY3D at 32 and 120, width, height and depth at 176, 184 and
 * 192. 1 is the host, 2 a device, 3 an array on one, 4 any of them. */
static __always_inline void read_structure(struct thread *thread, __u64 at, int planes)
{
	__u32 from = read_user_word(at + (planes ? 32 : 16));
	__u32 to = read_user_word(at + (planes ? 120 : 72));
	__u64 size = read_user(at + (planes ? 176 : 112)) * read_user(at + (planes ? 184 : 120));

	thread->size = planes ? size * read_user(at + 192) : size;
	thread->extra = from == EITHER_TYPE || to == EITHER_TYPE ? UNKNOWN_DIRECTION :
			from == HOST_TYPE && to == HOST_TYPE ? UNKNOWN_DIRECTION :
			from == HOST_TYPE ? TO_DEVICE : to == HOST_TYPE ? FROM_DEVICE : ON_DEVICE;
}

/* Sizes of a batch that are read, and how many at a time: the verifier goes through each turn
 * of a loop. */
#define MOST_SIZES 1024
#define AT_A_TIME 16

/* The sum of so many numbers of the process; the kernel fills in zeros where it cannot read. */
static __always_inline __u64 sum_of(__u64 at)
{
	__u64 sizes[AT_A_TIME], total = 0;

	bpf_probe_read_user(sizes, sizeof(sizes), (void *)at);
#pragma unroll
	for (int index = 0; index < AT_A_TIME; index++)
		total += sizes[index];
	return total;
}

/* A batch: argument 2 is where its sizes are, 3 is how many. */
static __always_inline void read_batch(struct thread *thread, __u64 at, __u64 count)
{
	__u64 total = 0, left = count;

	for (int turn = 0; turn < MOST_SIZES / AT_A_TIME && left >= AT_A_TIME; turn++) {
		total += sum_of(at);
		at += AT_A_TIME * sizeof(__u64);
		left -= AT_A_TIME;
	}
	for (__u32 index = 0; index < AT_A_TIME - 1 && index < left; index++)
		total += read_user(at + index * sizeof(__u64));
	if (count > MOST_SIZES)
		lose(thread->process, BATCHES);
	thread->size = total;
	thread->extra = count;
}

/* HIP's kinds of copies: 0 on the host, 1 to a device, 2 from one, 3 on one; any
 * other lets the driver look. */
static __always_inline __u32 hip_direction(__u32 kind)
{
	return kind == 1 ? TO_DEVICE : kind == 2 ? FROM_DEVICE : kind == 3 ? ON_DEVICE : UNKNOWN_DIRECTION;
}

static __always_inline void read_size(struct thread *thread, struct arguments *arguments)
{
	__u64 cookie = thread->cookie;
	__u32 kind = COOKIE_KIND(cookie);

	thread->size = argument_of(arguments, COOKIE_SIZE(cookie)) << COOKIE_UNIT(cookie);
	if (COOKIE_TIMES(cookie) != NO_ARGUMENT)
		thread->size *= argument_of(arguments, COOKIE_TIMES(cookie));
	if (kind == COPY_STRUCT_2D || kind == COPY_STRUCT_3D)
		read_structure(thread, arguments->registers[0], kind == COPY_STRUCT_3D);
	else if (kind == COPY_BATCH)
		read_batch(thread, arguments->registers[2], arguments->registers[3]);
	else if (COOKIE_DIRECTION(cookie) == DIRECTION_ARGUMENT)
		thread->extra = hip_direction(thread->extra);
}
