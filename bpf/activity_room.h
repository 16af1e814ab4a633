/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The room that each account has in the tables, and what found none.
 *
 * One user must not be able to make the counts of others vanish. Three quarters of a table
 * are for everybody, first come, first served, and nobody gets more than half of it. The
 * last quarter is for accounts that have less than their share. So an account that stays
 * within its share is refused only if SHARES others use up theirs at the same time.
 *
 * What is refused is counted for its account, and the process is marked: its numbers are
 * the least that it did.
 */
#pragma once

#include "activity_maps.h"

#define SHARES 16
#define SHARE(room) ((room) / 4 / SHARES)
#define COMMON(room) ((room) / 4 * 3)
#define LARGEST(room) ((room) / 2)

static __always_inline __u32 room_of(__u32 table)
{
	switch (table) {
	case PROCESSES: return ROOM_PROCESSES;
	case THREADS: return ROOM_THREADS;
	case CONTEXTS: return ROOM_CONTEXTS;
	case STREAMS: return ROOM_STREAMS;
	case BLOCKS: return ROOM_BLOCKS;
	case EVENTS: return ROOM_EVENTS;
	case GRAPHS: return ROOM_GRAPHS;
	case ERRORS: return ROOM_ERRORS;
	case DEVICES: return ROOM_DEVICES;
	case CAPTURES: return ROOM_CAPTURES;
	case OUTSIDE: return ROOM_OUTSIDE;
	}
	return 0;
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

/* Something of a process found no room. */
static __always_inline void lose(__u64 process, __u32 table)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);

	if (!known)
		return;
	known->lost |= 1 << table;
	lose_of(known->account, table);
}

/* What is not there now may be asked for later: it counts as lost then. */
static __always_inline void forget(__u64 process, __u32 table)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);

	if (known)
		known->forgot |= 1 << table;
}

/* A table has no entry of something that was perhaps forgotten. Whether it was. */
static __always_inline int forgotten(__u64 process, __u32 table)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);

	if (!known || !(known->forgot & 1 << table))
		return 0;
	lose(process, table);
	return 1;
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

/* Takes room for one entry of an account, if it may have more. */
static __attribute__((noinline)) int take_share(__u32 account, __u32 table)
{
	__u32 one = 1;
	__u64 *smaller = bpf_map_lookup_elem(&settings, &one);
	__u32 room = room_of(table) >> (smaller ? *smaller & 15 : 0);
	__u32 own = change_held(account, table, 1), all = change_held(EVERYBODY, table, 1);

	if (own < SHARE(room) || (own < LARGEST(room) && all < COMMON(room)))
		return 1;
	give_back_share(account, table);
	return 0;
}

/* So many streams more of a process are captured. Ids of processes end in the pid. */
static __always_inline void change_capturing(__u64 process, __u32 by)
{
	__u32 slot = process & (CAPTURING - 1);
	__u32 *now = bpf_map_lookup_elem(&capturing, &slot);

	if (now)
		__sync_fetch_and_add(now, by);
}

static __attribute__((noinline)) int give_back(__u64 process, __u32 table)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);

	if (!known)
		return 0;
	if (table == CAPTURES)
		change_capturing(process, -1);
	__sync_fetch_and_add(&known->held[table & (ROOMS - 1)], -1);
	give_back_share(known->account, table);
	return 0;
}

/* Takes room for one entry of a process, which may have `most`. */
static __attribute__((noinline)) int take_room(__u64 process, __u32 table, __u32 most)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);

	if (!known)
		return 0;
	if (__sync_fetch_and_add(&known->held[table & (ROOMS - 1)], 1) < most &&
	    take_share(known->account, table)) {
		if (table == CAPTURES)
			change_capturing(process, 1);
		return 1;
	}
	__sync_fetch_and_add(&known->held[table & (ROOMS - 1)], -1);
	return 0;
}

/* The entry of a key, and a new one if there is none and the process may have one more. */
#define FIND_OR_MAKE(map, key, process, table, most) ({                          \
	void *value_ = bpf_map_lookup_elem(&map, key);                           \
	if (!value_ && take_room(process, table, most)) {                        \
		void *zeros_ = zeros();                                          \
		if (!zeros_ || bpf_map_update_elem(&map, key, zeros_, BPF_NOEXIST)) \
			give_back(process, table);                               \
		value_ = bpf_map_lookup_elem(&map, key);                         \
	}                                                                        \
	value_; })

/* The same, where nothing else takes what finds no room. */
#define FIND_MAKE_OR_LOSE(map, key, process, table, most) ({                     \
	void *found_ = FIND_OR_MAKE(map, key, process, table, most);             \
	if (!found_)                                                             \
		lose(process, table);                                            \
	found_; })

/* Keeps a value; whether there was room. */
#define KEEP(map, key, value, process, table, most) ({                           \
	int kept_ = !bpf_map_update_elem(&map, key, value, BPF_EXIST);           \
	if (!kept_ && take_room(process, table, most)) {                         \
		kept_ = !bpf_map_update_elem(&map, key, value, BPF_NOEXIST);     \
		if (!kept_)                                                      \
			give_back(process, table);                               \
	}                                                                        \
	kept_; })

/* Takes an entry out. Whether it was there. */
#define TAKE_OUT(map, key, process, table) ({                                    \
	int out_ = !bpf_map_delete_elem(&map, key);                              \
	if (out_)                                                                \
		give_back(process, table);                                       \
	out_; })
