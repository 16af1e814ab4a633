/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The room that processes have in the tables, and what found none: their accounts have
 * shares (shares.h). A process of which something was refused is marked: its numbers are
 * the least that it did.
 */
#pragma once

#include "activity_alone.h"

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

/* There are so many reasons more to read the streams of a process's launches: streams that
 * are captured, contexts beyond the first. Ids of processes end in the pid. */
static __always_inline void change_reasons(__u64 process, __u32 by)
{
	__u32 slot = process & (REASONS - 1);
	__u32 *now = bpf_map_lookup_elem(&reasons, &slot);

	if (now)
		__sync_fetch_and_add(now, by);
}

VERIFIED_ONCE int give_back(__u64 process, __u32 table)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);

	if (!known)
		return 0;
	if (table == CAPTURES || table == CONTEXTS)
		change_reasons(process, -1);
	__sync_fetch_and_add(&known->held[table & (ROOMS - 1)], -1);
	give_back_share(known->account, table);
	return 0;
}

/* Takes room for one entry of a process, which may have `most`. */
VERIFIED_ONCE int take_room(__u64 process, __u32 table, __u32 most)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);
	__u32 before;

	if (!known)
		return 0;
	before = __sync_fetch_and_add(&known->held[table & (ROOMS - 1)], 1);
	if (before < most && take_share(known->account, table)) {
		if (table == CAPTURES || (table == CONTEXTS && before))
			change_reasons(process, 1);
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
