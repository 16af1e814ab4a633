/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * How much of what each account did was lost.
 */
#pragma once

#include "helpers.h"

/* The account of all users for whom the map of losses has no room. The kernel
 * gives this number to nobody. */
#define OTHERS 0xffffffff

/* What was lost: all, and by account. User space puts OTHERS in. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

static __always_inline void count_lost(__u32 account)
{
	__u32 zero = 0;
	__u64 none = 0;
	__u64 *count = bpf_map_lookup_elem(&losses, &account);

	if (!count) {
		bpf_map_update_elem(&losses, &account, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&losses, &account);
	}
	if (!count) {
		account = OTHERS;
		count = bpf_map_lookup_elem(&losses, &account);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	/* After that: who sees this number sees whose it is. */
	count = bpf_map_lookup_elem(&lost, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
}
