/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Shares of tables by account. One user must not be able to make the counts of others
 * vanish. Three quarters of a table are for everybody, first come, first served, and nobody
 * gets more than half of it. The last quarter is for accounts that have less than their
 * share. So an account that stays within its share is refused only if SHARES others use up
 * theirs at the same time. What is refused is counted for its account.
 *
 * Whoever includes this has said before how many entries each table has: ROOM_OF.
 */
#pragma once

#include "scope.h"
#include "task.h"
#include "activity.h"

#define TABLE(name, kind, flags, most, key_type, value_type) \
	struct {                                             \
		__uint(type, kind);                          \
		__uint(map_flags, flags);                    \
		__uint(max_entries, most);                   \
		__type(key, key_type);                       \
		__type(value, value_type);                   \
	} name SEC(".maps")

/* Zeros: what entries begin with. */
struct zeros { __u64 words[192]; };
TABLE(nothing, BPF_MAP_TYPE_ARRAY, 0, 1, __u32, struct zeros);
/* 1: all rooms are 2^N times smaller, for tests. The others: see activity_maps.h. */
TABLE(settings, BPF_MAP_TYPE_ARRAY, 0, 3, __u32, __u64);

/* Accounts stay: none of them is ever taken out. */
#define MOST_ACCOUNTS 16384
TABLE(accounts, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, MOST_ACCOUNTS, __u32, struct activity_account);
TABLE(returned_room, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, MOST_ACCOUNTS, __u32, struct activity_returned);

#define SHARES 16
#define SHARE(room) ((room) / 4 / SHARES)
#define COMMON(room) ((room) / 4 * 3)
#define LARGEST(room) ((room) / 2)

static __always_inline void add(__u64 *sum, __u64 value)
{
	__sync_fetch_and_add(sum, value);
}

/* Zeros for a new entry. */
static __always_inline void *zeros(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nothing, &zero);
}

/* The account, or that of the others where there is no room for one more. */
static __always_inline __u32 known_account(__u32 account)
{
	void *none;

	if (bpf_map_lookup_elem(&accounts, &account))
		return account;
	none = zeros();
	if (none)
		bpf_map_update_elem(&accounts, &account, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&accounts, &account) ? account : OTHERS;
}

static __always_inline void lose_of(__u32 account, __u32 table)
{
	struct activity_account *own = bpf_map_lookup_elem(&accounts, &account);

	if (own)
		add(&own->lost[table & (ROOMS - 1)], 1);
}

/* One entry more or less of an account; how many of the account and of all there were
 * before. */
static __always_inline __u32 change_held(__u32 account, __u32 table, __u32 by)
{
	struct activity_account *own = bpf_map_lookup_elem(&accounts, &account);
	struct activity_returned *back = bpf_map_lookup_elem(&returned_room, &account);
	__u32 held;

	/* Of an account that is not known there is no room. */
	if (!own)
		return 0x7fffffff;
	held = __sync_fetch_and_add(&own->held[table & (ROOMS - 1)], by);
	return back ? held - back->entries[table & (ROOMS - 1)] : held;
}

static __always_inline void give_back_share(__u32 account, __u32 table)
{
	change_held(account, table, -1);
	change_held(EVERYBODY, table, -1);
}

/* The account of the current process. */
VERIFIED_ONCE __u32 own_account(void)
{
	return known_account(account_of((struct task_struct *)bpf_get_current_task()));
}

/* Takes room for one entry of an account, if it may have more. */
VERIFIED_ONCE int take_share(__u32 account, __u32 table)
{
	__u32 one = 1;
	__u64 *smaller = bpf_map_lookup_elem(&settings, &one);
	__u32 room = ROOM_OF(table) >> (smaller ? *smaller & 15 : 0);
	__u32 own = change_held(account, table, 1), all = change_held(EVERYBODY, table, 1);

	if (own < SHARE(room) || (own < LARGEST(room) && all < COMMON(room)))
		return 1;
	give_back_share(account, table);
	return 0;
}
