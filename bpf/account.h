/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who answers for a record, how much room each account has in the ring, and how
 * many records each one lost.
 *
 * One user must not be able to make the changes of others vanish. Most of the
 * ring is for everybody, first come, first served. While more than that waits to
 * be read, each account may add its share, and no more until less than that
 * waits again. So an account that stays within its share is refused only if
 * SHARES others use up theirs at the same time.
 */
#pragma once

#include "task.h"
#include "gpumap.h"
#include "losses.h"

/* User space maps it twice: that is resident memory of gpumap. */
#define RING_SIZE (8 << 20)
/* What is for everybody: room for 50,000 changes of usual length (144 bytes with
 * the ring's own 8). */
#define COMMON (RING_SIZE / 8 * 7)
/* How many accounts have their share in the rest, and its bytes: some 200
 * changes, or 50 processes that start, change a variable and end. */
#define SHARES 32
#define SHARE ((RING_SIZE - COMMON) / SHARES)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SIZE);
} ring SEC(".maps");

/* The times in which more than COMMON waits: their number, and whether one is
 * now. */
struct crowding {
	__u64 number;
	__u64 now;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct crowding);
} crowding SEC(".maps");

/* What an account added to the ring in one of these times. */
struct share {
	__u64 number;
	__u64 used;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct share);
} shares SEC(".maps");

/* How many records of an account were lost; it is that of the others where the
 * losses of this one are not counted by themselves. */
static __always_inline __u32 lost_before(__u32 *account)
{
	__u32 others = OTHERS;
	__u64 *count = bpf_map_lookup_elem(&losses, account);

	if (count)
		return *(volatile __u64 *)count;
	count = bpf_map_lookup_elem(&losses, &others);
	if (!count || !*(volatile __u64 *)count)
		return 0;
	*account = OTHERS;
	return *(volatile __u64 *)count;
}

/* Whether an account may add so many bytes to the ring. */
static __always_inline int admitted(__u32 account, __u32 size)
{
	__u32 zero = 0;
	struct crowding *crowd = bpf_map_lookup_elem(&crowding, &zero);

	if (!crowd)
		return 0;
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) + size <= COMMON) {
		if (crowd->now) {
			crowd->now = 0;
			__sync_fetch_and_add(&crowd->number, 1);
		}
		return 1;
	}
	crowd->now = 1;
	struct share *share = bpf_map_lookup_elem(&shares, &account);

	if (!share) {
		struct share first = { .number = crowd->number, .used = size };

		return bpf_map_update_elem(&shares, &account, &first, BPF_ANY) == 0;
	}
	if (share->number != crowd->number) {
		share->number = crowd->number;
		share->used = 0;
	}
	if (share->used + size > SHARE)
		return 0;
	__sync_fetch_and_add(&share->used, size);
	return 1;
}

/* The ring's own bytes of a record. */
#define RECORD_HEAD 8

/* Room in the ring for a record of an account, or a loss. */
#define ROOM(record, account) ({                                               \
	record *room_ = admitted(account, sizeof(record) + RECORD_HEAD) ?      \
		bpf_ringbuf_reserve(&ring, sizeof(record), 0) : (void *)0;     \
	if (!room_)                                                            \
		count_lost(account);                                           \
	room_; })
