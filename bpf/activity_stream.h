/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What is handed to streams: kernels, graphs, copies, fills; and who waits for
 * them.
 */
#pragma once

#include "activity_memory.h"

/* Streams whose handle is no address are each context's own. */
static __always_inline int is_default(__u64 stream)
{
	return stream <= STREAM_OTHERS;
}

static __always_inline struct activity_stream_key stream_key(struct thread *thread, __u64 stream)
{
	struct activity_stream_key key = {
		.process = thread->process,
		.context = is_default(stream) ? current_context(thread) :
			COOKIE_HIP(thread->cookie) ? HIP_CONTEXT : 0,
		.stream = stream,
	};

	return key;
}

/* The sums of a stream. A new one belongs to the thread's context, and one for which there
 * is no room counts with that context's others. */
static __always_inline struct activity_stream *stream_sums(struct thread *thread,
							   struct activity_stream_key *key)
{
	struct activity_stream *sums = bpf_map_lookup_elem(&streams, key);

	if (sums)
		return sums;
	sums = FIND_OR_MAKE(streams, key, thread->process, STREAMS, MOST_STREAMS);
	if (!sums) {
		key->context = current_context(thread);
		key->stream = STREAM_OTHERS;
		sums = FIND_MAKE_OR_LOSE(streams, key, thread->process, STREAMS,
					 MOST_STREAMS + MOST_CONTEXTS);
	}
	if (sums)
		sums->context = current_context(thread);
	return sums;
}

/* Threads may come in any order. */
static __always_inline void seen(struct activity_stream *sums, __u64 now)
{
	if (now > sums->last)
		sums->last = now;
	if (!sums->first)
		sums->first = now;
}

/* A capture's stream. The default streams of threads are a stream each. */
static __always_inline struct object_key capture_key(struct thread *thread, __u64 stream)
{
	struct object_key key = { thread->process, stream };

	if (stream == STREAM_PER_THREAD)
		key.address = PHYSICAL_BIT | (__u32)bpf_get_current_pid_tgid();
	return key;
}

/* The capture that a stream takes part in: that of its origin, as long as it
 * goes on. */
static __always_inline struct capture *capture_of(struct thread *thread, __u64 stream)
{
	struct object_key key = capture_key(thread, stream);
	struct capture *own = bpf_map_lookup_elem(&captures, &key), *origin;

	if (!own || own->origin == key.address)
		return own;
	key.address = own->origin;
	origin = bpf_map_lookup_elem(&captures, &key);
	return origin && origin->number == own->number ? origin : 0;
}

/* Whether what is handed to the stream is kept in a graph and does not run. */
static __always_inline struct capture *captured(struct thread *thread, struct activity_stream *sums)
{
	return sums->capturing ? capture_of(thread, thread->stream) : 0;
}

static __always_inline void launched(struct thread *thread, struct activity_stream *sums)
{
	struct capture *capture = captured(thread, sums);

	if (capture) {
		add(&capture->kernels, 1);
		add(&sums->captured, 1);
	} else {
		add(&sums->launches, 1);
	}
}

/* Of launches that are not timed, the first in each tick of the kernel's clock (1 to 10 ms)
 * says when it was: asking for the time takes longer than counting. */
static __always_inline void seen_in_tick(struct activity_stream *sums)
{
	__u64 tick = bpf_jiffies64();

	if (sums->tick == tick)
		return;
	sums->tick = tick;
	seen(sums, bpf_ktime_get_ns());
}

/* A launch that is not timed: all that is known at its entry. */
static __always_inline void launched_untimed(struct thread *thread)
{
	struct activity_stream_key key = stream_key(thread, thread->stream);
	struct activity_stream *sums = stream_sums(thread, &key);

	if (!sums)
		return;
	seen_in_tick(sums);
	launched(thread, sums);
}

/* How many kernels a graph has, as far as is known. */
static __always_inline __u64 kernels_of(__u64 process, __u64 graph)
{
	struct object_key key = { process, graph };
	__u64 *kernels = graph ? bpf_map_lookup_elem(&graphs, &key) : 0;

	return kernels ? *kernels : 0;
}

/* Whether the kernels of a graph are not known for lack of room. */
static __always_inline int is_forgotten(__u64 process, __u64 graph)
{
	struct object_key key = { process, graph };
	struct activity_process *known;

	if (!graph || bpf_map_lookup_elem(&graphs, &key))
		return 0;
	known = bpf_map_lookup_elem(&processes, &process);
	return known && known->forgot & 1 << GRAPHS;
}

/* A stream begins a capture, or joins the one of `origin`. `kernels` are in the graph
 * already. */
static __always_inline void begin_capture(struct thread *thread, struct activity_stream *sums,
					  __u64 origin, __u64 number, __u64 kernels)
{
	struct object_key key = capture_key(thread, thread->stream);
	struct capture capture = { origin ? origin : key.address, number, kernels };

	if (KEEP(captures, &key, &capture, thread->process, CAPTURES, ANY_NUMBER))
		__sync_fetch_and_add(&sums->capturing, 1);
	else
		lose(thread->process, CAPTURES);
}

static __always_inline void keep_graph(__u64 process, __u64 graph, __u64 kernels)
{
	struct object_key key = { process, graph };

	if (graph && !KEEP(graphs, &key, &kernels, process, GRAPHS, ANY_NUMBER))
		forget(process, GRAPHS);
}

/* A capture that could not be ended has ended all the same. */
static __always_inline void end_capture(struct thread *thread, struct activity_stream *sums, int result)
{
	struct object_key key = capture_key(thread, thread->stream);
	struct capture *capture = bpf_map_lookup_elem(&captures, &key);

	if (!capture || capture->origin != key.address)
		return;
	if (!result)
		keep_graph(thread->process, read_user(thread->pointer), capture->kernels);
	TAKE_OUT(captures, &key, thread->process, CAPTURES);
	if (sums->capturing)
		__sync_fetch_and_add(&sums->capturing, -1);
}

static __always_inline void record_event(struct thread *thread, struct activity_stream *sums,
					 struct activity_stream_key *key)
{
	struct object_key event = { thread->process, thread->pointer };
	struct recorded recorded = { .at = *key };
	struct capture *capture = captured(thread, sums);

	if (capture) {
		recorded.origin = capture->origin;
		recorded.capture = capture->number;
	}
	if (!KEEP(events, &event, &recorded, thread->process, EVENTS, ANY_NUMBER))
		forget(thread->process, EVENTS);
}

/* A stream that waits for an event of a capture is captured, too. */
static __always_inline void wait_in_stream(struct thread *thread, struct activity_stream *sums)
{
	struct object_key key = { thread->process, thread->pointer };
	struct recorded *event = bpf_map_lookup_elem(&events, &key);
	struct capture *origin;

	if (!event)
		forgotten(thread->process, EVENTS);
	if (!event || !event->capture || capture_of(thread, thread->stream))
		return;
	key.address = event->origin;
	origin = bpf_map_lookup_elem(&captures, &key);
	if (origin && origin->number == event->capture)
		begin_capture(thread, sums, event->origin, event->capture, 0);
}

static __always_inline void launched_graph(struct thread *thread, struct activity_stream *sums)
{
	__u64 kernels = kernels_of(thread->process, thread->pointer);
	struct capture *capture = captured(thread, sums);

	if (is_forgotten(thread->process, thread->pointer))
		lose(thread->process, GRAPHS);
	/* A graph that is launched into a capture becomes part of the captured one. */
	if (capture) {
		add(&capture->kernels, kernels);
		return;
	}
	add(&sums->graph_launches, 1);
	add(&sums->graph_kernels, kernels);
}

/* An executable graph has the kernels of the graph that it is made of, or
 * brought up to date with. */
static __always_inline void made_graph(struct thread *thread, __u64 executable)
{
	struct object_key key = { thread->process, executable };

	if (is_forgotten(thread->process, thread->extra)) {
		TAKE_OUT(graphs, &key, thread->process, GRAPHS);
		return;
	}
	keep_graph(thread->process, executable, kernels_of(thread->process, thread->extra));
}

static __always_inline void copied(struct thread *thread, struct activity_stream *sums, __u64 took)
{
	__u32 direction = COOKIE_DIRECTION(thread->cookie);

	if (captured(thread, sums))
		return;
	if (direction == DIRECTION_ARGUMENT)
		direction = thread->extra;
	/* Of a batch, `extra` is how many there are. */
	add(&sums->copies, COOKIE_KIND(thread->cookie) == COPY_BATCH ? thread->extra : 1);
	add(&sums->copied[direction & 3], thread->size);
	if (COOKIE_WAITS(thread->cookie))
		add(&sums->copy_wait_ns, took);
}

static __always_inline void filled(struct thread *thread, struct activity_stream *sums)
{
	if (captured(thread, sums))
		return;
	add(&sums->fills, 1);
	add(&sums->fill_bytes, thread->size);
}

/* The driver made a stream: it belongs to the context of now. One at the address
 * of an earlier one goes on with its sums, unless that was of another context:
 * its sums go to that context's others. */
static __always_inline void created_stream(struct thread *thread)
{
	struct activity_stream_key key = stream_key(thread, read_user(thread->pointer));
	struct activity_stream_key others = { thread->process, 0, STREAM_OTHERS };
	struct activity_stream *sums, *into;
	__u64 context = current_context(thread);

	if (is_default(key.stream))
		return;
	sums = stream_sums(thread, &key);
	if (!sums)
		return;
	if (sums->context != context && !is_default(key.stream)) {
		others.context = sums->context;
		into = FIND_MAKE_OR_LOSE(streams, &others, thread->process, STREAMS,
					 MOST_STREAMS + MOST_CONTEXTS);
		if (into) {
			into->context = sums->context;
			for (int sum = 0; sum < STREAM_SUMS; sum++) {
				add(&((__u64 *)into)[sum], ((__u64 *)sums)[sum]);
				((__u64 *)sums)[sum] = 0;
			}
			seen(into, sums->last);
		}
		sums->context = context;
		sums->first = sums->last = sums->tick = 0;
	}
	sums->capturing = 0;
}

/* The driver is about to destroy a stream: a capture of it ends without a graph. Done at
 * the entry: afterwards another thread may be given the same address. Its sums stay. */
static __always_inline void destroyed_stream(struct thread *thread)
{
	struct activity_stream_key key = stream_key(thread, thread->stream);
	struct activity_stream *sums = bpf_map_lookup_elem(&streams, &key);
	struct object_key capture = capture_key(thread, thread->stream);

	if (!sums || is_default(thread->stream) || !sums->capturing)
		return;
	TAKE_OUT(captures, &capture, thread->process, CAPTURES);
	sums->capturing = 0;
}

/* The driver is about to destroy an event or a graph: another may come to its address. */
static __always_inline void destroying_event(struct thread *thread)
{
	struct object_key key = { thread->process, thread->pointer };

	TAKE_OUT(events, &key, thread->process, EVENTS);
}

static __always_inline void destroying_graph(struct thread *thread)
{
	struct object_key key = { thread->process, thread->pointer };

	TAKE_OUT(graphs, &key, thread->process, GRAPHS);
}
