/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * How many bytes an array of CUDA asks for, by its descriptor in the memory of the process:
 * CUDA_ARRAY_DESCRIPTOR has width, height, format and channels, CUDA_ARRAY3D_DESCRIPTOR
 * width, height, depth, format, channels and flags. A dimension of 0 is not there.
 */
#pragma once

#include "kernel.h"

/* The size is not known: the descriptor cannot be read, its format is compressed or planar,
 * or it has dimensions that no GPU has. */
#define UNSIZED (~0ULL)

/* More than any GPU takes: products stay below 2^56. */
#define MOST_ACROSS (1 << 18)
#define MOST_DEEP (1 << 16)
#define MOST_CHANNELS 4
/* Levels of mipmaps of the largest array. */
#define MOST_LEVELS 19

/* CUDA_ARRAY3D_LAYERED and CUDA_ARRAY3D_CUBEMAP: the depth is a number of layers, which all
 * levels have. CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING: there is no memory. */
#define LAYERS (1 | 4)
#define WITHOUT_MEMORY (0x40 | 0x80)

struct array { __u64 width, height, depth; __u32 format, channels, flags, pad; };

/* CUarray_format: two bits for each, by its last five bits, say how many bytes a channel has:
 * 1 for one, 2 for two, 3 for four. Here and below branches cost the verifier more than sums. */
#define CODE(format, code) ((__u64)(code) << 2 * ((format) & 31))
#define BYTES_OF_FORMATS                                                   \
	(CODE(0x01, 1) | CODE(0x02, 2) | CODE(0x03, 3) | /* unsigned */     \
	 CODE(0x08, 1) | CODE(0x09, 2) | CODE(0x0a, 3) | /* signed */       \
	 CODE(0x10, 2) | CODE(0x20, 3))                  /* half, float */

/* The bytes of one channel; 0 where a channel has none of its own. */
static __always_inline __u64 bytes_of_format(__u32 format)
{
	return format && format <= 0x20 ? 1 << (BYTES_OF_FORMATS >> 2 * (format & 31) & 3) >> 1 : 0;
}

static __always_inline int read_array(struct array *array, __u64 at, int deep)
{
	if (deep)
		return !bpf_probe_read_user(array, 36, (void *)at);
	return !bpf_probe_read_user(array, 16, (void *)at) &&
		!bpf_probe_read_user(&array->format, 8, (void *)(at + 16));
}

/* Dimensions are below 2^63. */
static __always_inline __u64 at_least_one(__u64 size)
{
	return size | (size - 1) >> 63;
}

/* All levels; each has half of the one before in every dimension, and the last is one element. */
static __always_inline __u64 elements_of(struct array *array, __u32 levels)
{
	__u64 all = 0, halved = !(array->flags & LAYERS);
	__u64 any = array->width | array->height | array->depth * halved;

	for (__u32 level = 0; level < MOST_LEVELS; level++) {
		if (level && (level >= levels || !(any >> level)))
			break;
		all += at_least_one(array->width >> level) * at_least_one(array->height >> level) *
			at_least_one(array->depth >> level * halved);
	}
	return all;
}

static __attribute__((noinline)) __u64 array_bytes(__u64 at, __u32 deep, __u32 levels)
{
	struct array array = {};
	__u64 bytes;

	if (!read_array(&array, at, deep))
		return UNSIZED;
	bytes = bytes_of_format(array.format) * array.channels;
	if (!bytes || array.channels > MOST_CHANNELS || array.width > MOST_ACROSS || array.height > MOST_ACROSS ||
	    array.depth > MOST_DEEP)
		return UNSIZED;
	if (array.flags & WITHOUT_MEMORY)
		return 0;
	return bytes * elements_of(&array, levels);
}
