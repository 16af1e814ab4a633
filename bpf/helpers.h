/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel's helpers that are called, by their numbers in linux/bpf.h, and
 * how sections, maps and relocations are written. Nothing but clang and the
 * kernel's own headers is needed to compile.
 */
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
/* A function that takes numbers alone, and is not static: the verifier goes through it once (Linux
 * 5.6), and not at each call. */
#define VERIFIED_ONCE __attribute__((noinline))
#define __uint(name, number) int(*name)[number]
#define __type(name, type) type *name

#define HELPER(returns, name, number, ...) \
	static returns (*const name)(__VA_ARGS__) = (void *)number

HELPER(void *, bpf_map_lookup_elem, 1, void *map, const void *key);
HELPER(long, bpf_map_update_elem, 2, void *map, const void *key, const void *value, __u64 flags);
HELPER(long, bpf_map_delete_elem, 3, void *map, const void *key);
HELPER(__u64, bpf_ktime_get_ns, 5, void);
HELPER(__u64, bpf_get_current_pid_tgid, 14, void);
HELPER(long, bpf_get_current_comm, 16, void *into, __u32 size);
HELPER(__u64, bpf_get_current_task, 35, void);
HELPER(long, bpf_probe_read_user, 112, void *into, __u32 size, const void *from);
HELPER(long, bpf_probe_read_kernel, 113, void *into, __u32 size, const void *from);
HELPER(long, bpf_probe_read_user_str, 114, void *into, __u32 size, const void *from);
HELPER(__u64, bpf_jiffies64, 118, void);
HELPER(__u64, bpf_get_current_ancestor_cgroup_id, 123, int level);
HELPER(__u64, bpf_ktime_get_boot_ns, 125, void);
HELPER(long, bpf_seq_write, 127, void *seq, const void *data, __u32 length);
HELPER(long, bpf_ringbuf_output, 130, void *ring, const void *data, __u64 size, __u64 flags);
HELPER(void *, bpf_ringbuf_reserve, 131, void *ring, __u64 size, __u64 flags);
HELPER(void, bpf_ringbuf_submit, 132, void *record, __u64 flags);
HELPER(void, bpf_ringbuf_discard, 133, void *record, __u64 flags);
HELPER(__u64, bpf_ringbuf_query, 134, void *ring, __u64 flags);
HELPER(__u64, bpf_get_func_ip, 173, void *ctx);
HELPER(__u64, bpf_get_attach_cookie, 174, void *ctx);
HELPER(long, bpf_copy_from_user_task, 191, void *into, __u32 size, const void *from,
       void *task, __u64 flags);

/* Types whose fields are found when the object is loaded. */
#define RELOCATED __attribute__((preserve_access_index))
/* BPF_FIELD_EXISTS of the relocations. */
#define field_exists(field) __builtin_preserve_field_info(field, 2)
/* BPF_FIELD_BYTE_OFFSET and BPF_TYPE_SIZE. */
#define field_offset(field) __builtin_preserve_field_info(field, 0)
#define type_size(type) __builtin_preserve_type_info(*(type *)0, 1)

/* Reads a field of a kernel structure. */
#define read_field(object, field) ({                                            \
	__typeof__((object)->field) value_;                                     \
	bpf_probe_read_kernel(&value_, sizeof(value_),                          \
			      __builtin_preserve_access_index(&(object)->field)); \
	value_; })
