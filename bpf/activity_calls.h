/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A call of a driver's function: what is taken down at its entry, and counted
 * when it returns.
 */
#pragma once

#include "activity_copies.h"

struct xol_area { unsigned long vaddr; } RELOCATED;
struct uprobes_state { struct xol_area *xol_area; } RELOCATED;
struct mm_struct___uprobes { struct uprobes_state uprobes_state; } RELOCATED;

/* Whether the call that the thread was in has not returned: the kernel put its
 * own address in place of the return address. Else it was left by longjmp, and
 * its frame is gone. Where the kernel does not tell, it is taken to go on. */
static __always_inline int is_under_way(struct thread *thread)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct mm_struct___uprobes *mm = (struct mm_struct___uprobes *)read_field(task, mm);
	struct xol_area *area;

	if (!is_x86() || !field_exists(mm->uprobes_state.xol_area) ||
	    !field_exists(((struct xol_area *)0)->vaddr))
		return 1;
	area = read_field(mm, uprobes_state.xol_area);
	return read_user(thread->stack) == read_field(area, vaddr);
}

/* A function that another one calls is part of that one. The stack grows down:
 * what is called later lies below. */
static __always_inline int is_nested(struct thread *thread, __u64 stack)
{
	return thread->stack && stack < thread->stack && is_under_way(thread);
}

static __always_inline __u64 stream_of(__u64 stream, __u64 cookie)
{
	if (stream == STREAM_LEGACY)
		return COOKIE_PER_THREAD(cookie) ? STREAM_PER_THREAD : STREAM_LEGACY;
	return stream == STREAM_LEGACY_NAMED ? STREAM_LEGACY : stream;
}

/* The entry of the current thread; `id` is what bpf_get_current_pid_tgid gives. */
static __always_inline struct thread *thread_of(__u64 id)
{
	__u32 tid = id;

	return bpf_map_lookup_elem(&threads, &tid);
}

/* Whether the return of the call is to be seen. The thread is not left alone. */
static __always_inline int enter_call(void *ctx, struct thread *thread, __u64 id)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), kind = COOKIE_KIND(cookie);
	__u64 stack = stack_pointer(ctx), context;
	struct arguments arguments;

	if (!thread)
		thread = new_thread(id, cookie);
	if (!thread)
		return 0;
	if (is_nested(thread, stack))
		return 0;
	thread->cookie = cookie;
	context = current_context(thread);
	if ((kind == LAUNCH || kind == LAUNCH_CONFIG) && !reads_stream(thread, id >> 32, context)) {
		thread->stack = 0;
		if (--thread->countdown) {
			launch_here(thread, context);
			return 0;
		}
		thread->countdown = thread->every;
		thread->stream = STREAM_UNREAD;
		thread->entered = bpf_ktime_get_ns();
		*(volatile __u64 *)&thread->stack = stack;
		return 1;
	}
	read_arguments(&arguments, ctx);
	thread->stream = argument_of(&arguments, COOKIE_STREAM(cookie));
	if (kind == LAUNCH_CONFIG)
		thread->stream = read_user(arguments.registers[0] + 32);
	thread->stream = stream_of(thread->stream, cookie);
	if (kind == LAUNCH || kind == LAUNCH_CONFIG) {
		thread->stack = 0;
		if (--thread->countdown) {
			launched_untimed(thread);
			return 0;
		}
		thread->countdown = thread->every;
	} else {
		thread->pointer = argument_of(&arguments, COOKIE_POINTER(cookie));
		thread->extra = argument_of(&arguments, COOKIE_EXTRA(cookie));
		read_size(thread, &arguments);
		if (kind == FREE)
			take_block(thread);
		else if (kind == DESTROY_STREAM)
			destroyed_stream(thread);
		else if (kind == DESTROY_CONTEXT)
			destroying_context(thread);
		else if (kind == DESTROY_EVENT)
			destroying_event(thread);
		else if (kind == DESTROY_GRAPH)
			destroying_graph(thread);
	}
	thread->entered = bpf_ktime_get_ns();
	/* Last: user space reads what is under way. */
	*(volatile __u64 *)&thread->stack = stack;
	return 1;
}

static __always_inline void count_error(struct thread *thread, int result)
{
	struct activity_error_key key = { thread->process, COOKIE_HIP(thread->cookie), result };
	__u64 *number = FIND_MAKE_OR_LOSE(errors, &key, thread->process, ERRORS, MOST_ERRORS);

	if (number)
		add(number, 1);
}

/* Calls about a stream, or about an event that was recorded in one. */
static __always_inline void leave_stream(struct thread *thread, __u32 kind, int result, __u64 now)
{
	struct activity_stream_key key = stream_key(thread, thread->stream);
	struct object_key event = { thread->process, thread->pointer };
	__u64 took = now - thread->entered;
	struct activity_stream *sums;

	if (kind == WAIT_EVENT || kind == QUERY_EVENT) {
		struct recorded *recorded = bpf_map_lookup_elem(&events, &event);

		if (!recorded) {
			forgotten(thread->process, EVENTS);
			wait_in_context(thread, kind == WAIT_EVENT && !result, took);
			return;
		}
		key = recorded->at;
	}
	/* A handle that the driver refuses is perhaps none. */
	sums = result && result != NOT_READY && key.stream != STREAM_OTHERS ? bpf_map_lookup_elem(&streams, &key) :
		stream_sums(thread, &key);
	if (!sums)
		return;
	seen(sums, now);
	add(&sums->durations[class_of(took)], 1);
	if (kind == END_CAPTURE)
		end_capture(thread, sums, result);
	if (kind == QUERY_STREAM || kind == QUERY_EVENT) {
		add(&sums->queries, 1);
		if (result == NOT_READY)
			return;
	}
	if (result) {
		add(&sums->errors, 1);
		return;
	}
	switch (kind) {
	case LAUNCH: case LAUNCH_CONFIG: launched(thread, sums); break;
	case LAUNCH_GRAPH: launched_graph(thread, sums); break;
	case HOST_FUNCTION:
		if (!captured(thread, sums))
			add(&sums->host_functions, 1);
		break;
	case COPY: case COPY_STRUCT_2D: case COPY_STRUCT_3D: case COPY_BATCH:
		copied(thread, sums, took);
		break;
	case FILL: filled(thread, sums); break;
	case WAIT_STREAM: case WAIT_EVENT:
		add(&sums->waits, 1);
		add(&sums->wait_ns, took);
		break;
	case RECORD_EVENT: record_event(thread, sums, &key); break;
	case STREAM_WAITS: wait_in_stream(thread, sums); break;
	case BEGIN_CAPTURE:
		begin_capture(thread, sums, 0, now, kernels_of(thread->process, thread->pointer));
		break;
	}
}

/* Calls about the thread's context, which change nothing if they fail. */
static __always_inline void leave_context(struct thread *thread, __u32 kind)
{
	switch (kind) {
	case SET_CONTEXT: set_context(thread, context_at(thread->process, thread->extra)); break;
	case PUSH_CONTEXT: push_context(thread, context_at(thread->process, thread->extra)); break;
	case POP_CONTEXT: pop_context(thread); break;
	case GET_CONTEXT: got_context(thread); break;
	case CREATE_CONTEXT: created_context(thread); break;
	case DESTROY_CONTEXT: destroyed_context(thread); break;
	case RETAIN_PRIMARY: retained_primary(thread); break;
	case RELEASE_PRIMARY: case RESET_PRIMARY: gave_up_primary(thread, kind); break;
	case NAME_DEVICE: named_device(thread); break;
	case SET_DEVICE: thread->hip_device = thread->extra; break;
	case GET_DEVICE: thread->hip_device = read_user_word(thread->pointer); break;
	case CREATE_STREAM: created_stream(thread); break;
	case INSTANTIATE: made_graph(thread, read_user(thread->pointer)); break;
	case UPDATE_GRAPH: made_graph(thread, thread->pointer); break;
	}
}

static __always_inline int leave_call(void *ctx, struct thread *thread)
{
	__u64 now, stack = stack_pointer(ctx);
	__u32 kind;
	int result;

	/* On x86 the return took the address from the stack. */
	if (!thread || !thread->stack || stack != thread->stack + (is_x86() ? 8 : 0))
		return 0;
	now = bpf_ktime_get_ns();
	kind = COOKIE_KIND(thread->cookie);
	result = returned(ctx);
	thread->stack = 0;
	if (thread->stream == STREAM_UNREAD && (kind == LAUNCH || kind == LAUNCH_CONFIG)) {
		if (!result) {
			launched_here(thread, current_context(thread), now);
			return 0;
		}
		thread->stream = STREAM_OTHERS;
	}
	if (result && result != NOT_READY)
		count_error(thread, result);
	/* After a launch that fails each is looked at, until one succeeds. */
	if (result && (kind == LAUNCH || kind == LAUNCH_CONFIG))
		thread->countdown = 1;
	if (kind == ALLOCATE)
		allocated(thread, result);
	else if (kind == FREE)
		freed(thread, result);
	else if (kind == WAIT_CONTEXT)
		wait_in_context(thread, !result, now - thread->entered);
	else if (kind < CREATE_STREAM || kind == BEGIN_CAPTURE || kind == END_CAPTURE)
		leave_stream(thread, kind, result, now);
	else if (!result)
		leave_context(thread, kind);
	return 0;
}
