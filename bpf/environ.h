/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The C library's functions that change the environment: entry and return, so
 * that calls that fail are no changes.
 *
 * A string of a program that has just started may be on a page that is not
 * there yet. A sleepable program touches the page and reads again. Kernels
 * before 6.0 have none: there everything is read at return, when the library
 * has touched what it uses; of a value that it did not touch (putenv) the
 * record says that it was not read.
 */
#pragma once

#include "common.h"

#define PAGE 4096UL

/* A call between entry and return, by thread. Of nested calls (putenv without
 * a value calls unsetenv) the inner one does the change. */
struct call {
	const char *name;
	const char *value;
	__u32 kind;
	__u32 flags;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct call);
} calls SEC(".maps");

/* Touches the pages of a string, so that it can be read. */
static __always_inline void touch(__u32 size, const char *from)
{
#ifndef PLAIN
	unsigned long next = (unsigned long)from;

	for (int page = 0; page < 3; page++) {
		char touched;

		if (next >= (unsigned long)from + size ||
		    bpf_copy_from_user(&touched, 1, (const void *)next))
			break;
		next = (next & ~(PAGE - 1)) + PAGE;
	}
#endif
}

/* Reads a string of the process; a negative number if it cannot be read. */
static __always_inline long text(char *into, __u32 size, const char *from)
{
	long length = bpf_probe_read_user_str(into, size, from);

	if (length < 0) {
		touch(size, from);
		length = bpf_probe_read_user_str(into, size, from);
	}
	return length;
}

/* Cuts a name off at '='; its length and its index if it is one that is looked
 * for, else 0. */
static __always_inline __u32 spelled(struct name *name, __u32 *index)
{
	__u32 length = 0;
	__u32 *found;

	for (__u32 at = 0; at < NAME_SIZE; at++) {
		char *byte = &name->text[at];

		if (length || !*byte || *byte == '=') {
			length = length ? length : at;
			*byte = 0;
		}
		if (at == 0 && !*byte)
			return 0;
	}
	found = bpf_map_lookup_elem(&variables, name);
	if (!found)
		return 0;
	*index = *found;
	return length;
}

/* Reads the name of a variable, up to its end or to '='. */
static __always_inline __u32 known(struct name *name, const char *from, __u32 *index)
{
	__builtin_memset(name, 0, sizeof(*name));
	if (text(name->text, NAME_SIZE, from) < 0)
		return 0;
	return spelled(name, index);
}

/* Whether the text behind a name in putenv's argument is a value. */
static __always_inline int has_value(const char *from, __u32 length)
{
	char byte = 0;

	return bpf_probe_read_user(&byte, 1, from + length) == 0 && byte == '=';
}

/* How the variables begin: all have more than eight bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, __u64);
	__type(value, __u32);
} beginnings SEC(".maps");

/* Whether a name begins as one that is looked for: what most calls are
 * filtered out by, in a tenth of the time that the whole name takes. A name
 * that cannot be read here may be one. */
static __always_inline int likely(const char *name)
{
	__u64 beginning;

	return bpf_probe_read_user(&beginning, sizeof(beginning), name) ||
	       bpf_map_lookup_elem(&beginnings, &beginning);
}

/* Whether the return of the call is to be seen. */
static __always_inline int enter(void *ctx, __u32 kind)
{
	struct call call = { .kind = kind };

	if (kind != CLEARENV && !likely((const char *)argument(ctx, 0)))
		return 0;
	if (!in_scope())
		return 0;
	__u64 thread = bpf_get_current_pid_tgid();

	if (kind != CLEARENV) {
		call.name = (const char *)argument(ctx, 0);
#ifndef PLAIN
		struct name name;
		__u32 index;

		if (!known(&name, call.name, &index))
			return 0;
#endif
	}
	if (kind == SETENV) {
		call.value = (const char *)argument(ctx, 1);
		call.flags = (int)argument(ctx, 2) ? 0 : KEEP;
	}
	bpf_map_update_elem(&calls, &thread, &call, BPF_ANY);
	return 1;
}

static __always_inline void fill(struct header *header, const struct call *call)
{
	describe(header, (struct task_struct *)bpf_get_current_task(), call->kind);
	header->flags = call->flags;
}

enum sent { UNREADABLE = -1, LONGER = 0, SENT = 1 };

/* Reads the value into a record of this size and sends it, if it is not longer
 * than that; one that cannot be read is said to be so if this is the last try.
 * `limit` leaves room for a byte that tells that the value goes on.
 *
 * Nothing here sleeps: a record that is begun keeps all that come after it
 * from being read, and how long a page takes is its process's choice. */
#define SEND(record, room, limit, made, index, last) ({                        \
	int sent_ = SENT;                                                      \
	record *change_ = bpf_ringbuf_reserve(&ring, sizeof(*change_), 0);     \
	if (!change_) {                                                        \
		count_lost();                                                  \
	} else {                                                               \
		long length_ = 1;                                              \
		if ((made)->value)                                             \
			length_ = bpf_probe_read_user_str(change_->value, room, \
							  (made)->value);      \
		/* An empty string, before Linux 6.16. */                      \
		if (!length_)                                                  \
			length_ = 1;                                           \
		if (length_ < 1 && !(last)) {                                  \
			bpf_ringbuf_discard(change_, 0);                       \
			sent_ = UNREADABLE;                                    \
		} else if (length_ > (limit) && (room) != VALUE_SIZE) {        \
			bpf_ringbuf_discard(change_, 0);                       \
			sent_ = LONGER;                                        \
		} else {                                                       \
			fill(&change_->header, made);                          \
			if (length_ < 1)                                       \
				change_->header.flags |= UNREAD;               \
			if (length_ > (limit))                                 \
				change_->header.flags |= CUT;                  \
			change_->variable = (index);                           \
			change_->length = length_ < 1 ? 0 :                    \
				length_ > (limit) ? (limit) - 1 : length_ - 1; \
			change_->pad = 0;                                      \
			bpf_ringbuf_submit(change_, 0);                        \
		}                                                              \
	}                                                                      \
	sent_; })

static __always_inline void send(const struct call *call, __u32 index)
{
	int sent = SEND(struct short_change, SHORT_SIZE, SHORT_SIZE - 1, call, index, 0);

	if (sent == SENT)
		return;
	touch(VALUE_SIZE, call->value);
	if (sent == UNREADABLE)
		sent = SEND(struct short_change, SHORT_SIZE, SHORT_SIZE - 1, call, index, 1);
	if (sent == LONGER)
		sent = SEND(struct change, MIDDLE_SIZE, MIDDLE_SIZE - 1, call, index, 1);
	if (sent == LONGER)
		SEND(struct long_change, VALUE_SIZE, VALUE_LIMIT + 1, call, index, 1);
}

static __always_inline int leave(void *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct call *found = bpf_map_lookup_elem(&calls, &thread);

	if (!found)
		return 0;
	struct call call = *found;
	struct name name = {};
	__u32 index = 0;

	bpf_map_delete_elem(&calls, &thread);
	if (returned(ctx) != 0)
		return 0;
	if (call.kind != CLEARENV) {
		__u32 length = known(&name, call.name, &index);

		if (!length)
			return 0;
		if (call.kind == PUTENV) {
			if (!has_value(call.name, length))
				return 0;
			call.value = call.name + length + 1;
		}
	}
	send(&call, index);
	return 0;
}
