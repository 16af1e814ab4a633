/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The C library's functions that change the environment: entry and return, so
 * that calls that fail are no changes.
 *
 * No program here sleeps, and none makes the kernel bring in a page: how long
 * that takes is up to the user whose page it is, and the kernel would wait for
 * the program as long. A string may be on a page that is not there yet. So
 * strings are read at return, when the library has touched those that it uses.
 * Of what is not there even then the record says that it was not read, and user
 * space looks for it in a way that cannot block.
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

/* 1 for 0, else 0, without a branch: the verifier goes both ways at each, and the way
 * through a loop with branches takes it seconds on kernels before 6.6. */
static __always_inline __u32 is_zero(__u32 byte)
{
	return (byte - 1) >> 31;
}

/* Cuts a name off at its end or at '=', and clears what follows. Its length. */
static __always_inline __u32 cut(struct name *name)
{
	__u32 length = 0, ended = 0;

	for (__u32 at = 0; at < NAME_SIZE; at++) {
		__u32 byte = (__u8)name->text[at];

		/* So that the compiler makes no branches of it. */
		asm volatile("" : "+r"(byte));
		ended |= is_zero(byte) | is_zero(byte ^ '=');
		length += 1 - ended;
		name->text[at] = byte & (ended - 1);
	}
	return length;
}

/* A name that cannot be read to its end. */
#define UNREADABLE_NAME (~0U)

/* Cuts a name off of which `size` bytes are there; its length and its index if it is one
 * that is looked for, else 0. */
static __always_inline __u32 spelled(struct name *name, __u32 size, __u32 *index)
{
	__u32 length = cut(name);
	__u32 *found;

	if (length >= size)
		return UNREADABLE_NAME;
	found = bpf_map_lookup_elem(&variables, name);
	if (!found)
		return 0;
	*index = *found;
	return length;
}

/* Reads the name of a variable, up to its end or to '='. Its length, 0 if it is
 * none that is looked for. */
static __always_inline __u32 known(struct name *name, const char *from, __u32 *index)
{
	__u32 size = NAME_SIZE;

	__builtin_memset(name, 0, sizeof(*name));
	if (bpf_probe_read_user_str(name->text, NAME_SIZE, from) < 0) {
		/* The beginning that lies on one page: what follows may be on one that is
		 * not there. */
		size = PAGE - ((unsigned long)from & (PAGE - 1));
		__builtin_memset(name, 0, sizeof(*name));
		if (size >= NAME_SIZE || bpf_probe_read_user(name->text, size, from))
			return UNREADABLE_NAME;
	}
	return spelled(name, size, index);
}

/* How the variables begin: all have more than eight bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, __u64);
	__type(value, __u32);
} beginnings SEC(".maps");

/* Whether a name begins as one that is looked for: what all calls but those of such
 * variables are filtered out by, in a tenth of the time that the whole name takes. A
 * name that cannot be read here may be one. */
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

	/* The whole name is looked at when the call returns. */
	if (kind != CLEARENV)
		call.name = (const char *)argument(ctx, 0);
	if (kind == SETENV) {
		call.value = (const char *)argument(ctx, 1);
		call.flags = (int)argument(ctx, 2) ? 0 : KEEP;
	}
	bpf_map_update_elem(&calls, &thread, &call, BPF_ANY);
	return 1;
}

static __always_inline void fill(struct header *header, const struct call *call, __u32 account)
{
	describe(header, (struct task_struct *)bpf_get_current_task(), account, call->kind);
	header->flags = call->flags;
}

enum sent { LONGER = 0, SENT = 1 };

/* Reads the value into a record of this size and sends it, if it is not longer
 * than that; one that cannot be read is said to be so. `limit` leaves room for a
 * byte that tells that the value goes on. */
#define SEND(record, room, limit, made, account, index) ({                     \
	int sent_ = SENT;                                                      \
	record *change_ = ROOM(record, account);                               \
	if (change_) {                                                         \
		long length_ = 1;                                              \
		if ((made)->value)                                             \
			length_ = bpf_probe_read_user_str(change_->value, room, \
							  (made)->value);      \
		/* An empty string, before Linux 6.16. */                      \
		if (!length_)                                                  \
			length_ = 1;                                           \
		if (length_ > (limit) && (room) != VALUE_SIZE) {        \
			bpf_ringbuf_discard(change_, 0);                       \
			sent_ = LONGER;                                        \
		} else {                                                       \
			fill(&change_->header, made, account);                 \
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
	__u32 account = account_of((struct task_struct *)bpf_get_current_task());
	int sent = SEND(struct short_change, SHORT_SIZE, SHORT_SIZE - 1, call, account, index);

	if (sent == LONGER)
		sent = SEND(struct change, MIDDLE_SIZE, MIDDLE_SIZE - 1, call, account, index);
	if (sent == LONGER)
		SEND(struct long_change, VALUE_SIZE, VALUE_LIMIT + 1, call, account, index);
}

/* The call has returned: tells what it changed. */
static __always_inline void told(struct call *call)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct name name = {};
	__u32 index = 0;

	if (call->kind != CLEARENV) {
		__u32 length = known(&name, call->name, &index);

		if (!length)
			return;
		if (length == UNREADABLE_NAME) {
			report(task, UNNAMED, call->kind);
			return;
		}
		if (call->kind == PUTENV) {
			char next = 0;

			if (bpf_probe_read_user(&next, 1, call->name + length)) {
				report(task, UNNAMED, call->kind);
				return;
			}
			/* Without a value it was unsetenv that did it. */
			if (next != '=')
				return;
			call->value = call->name + length + 1;
		}
	}
	send(call, index);
}

/* Of two links on one file, as there are for moments after an execve, the first
 * that comes here tells the call, and the other finds nothing. */
static __always_inline int leave(void *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct call *found = bpf_map_lookup_elem(&calls, &thread);

	if (!found)
		return 0;
	struct call call = *found;

	bpf_map_delete_elem(&calls, &thread);
	if (returned(ctx) == 0)
		told(&call);
	return 0;
}
