/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the stand-ins of drivers' libraries have in common: they keep the truth. At exit
 * a stand-in appends to the file that TRUTH names what was really called:
 *
 *   stream CONTEXT STREAM launches graphs kernels captured host copies to from on
 *          unknown fills bytes waits queries
 *   context CONTEXT DEVICE allocations frees failed device managed host physical
 *           peak waits
 *   error CODE COUNT
 *   function NAME 1|0, whether it was called
 *
 * A stand-in says which context the thread has (`now`), and adds each of its exported
 * functions to the section `functions` (REGISTER).
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
enum { LAUNCHES, GRAPHS, KERNELS, CAPTURED, HOSTED, COPIES, TO, FROM, ON, EITHER, FILLS, FILLED, WAITS, QUERIES, SUMS };
enum { DEVICE, MANAGED, HOST, PHYSICAL };
/* The stream of a context whose sums are of streams that are gone. */
#define OTHERS 3

/* A graph, and the stream whose capture fills it, if one does. */
struct graph { u64 kernels; struct stream *origin; };
/* `shown` is how the truth calls it; HIP has one for each device. */
struct context {
	u64 shown, number[3], bytes[4], peak, waits, renamed;
	int device, known, retained;
	struct context *next, *spare;
};
struct stream { struct context *context; u64 handle, sums[SUMS]; struct graph *capture; struct stream *next, *spare; };
struct event { struct stream *at; struct graph *capture; };
struct block { u64 at, size; int kind; struct context *context; struct block *next; };
struct function { const char *name; void *address; int called; };

static struct context *now(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *contexts;
static struct stream *streams, *spare_streams;
static struct block *blocks;
static u64 errors[1024], next_address = 0x7f0000000000;

extern struct function __start_functions[], __stop_functions[];
#define REGISTER(name, address) static struct function function_##name \
	__attribute__((section("functions"), used, aligned(8))) = { #name, address, 0 };

static int fail(int code) { __atomic_fetch_add(&errors[code], 1, __ATOMIC_RELAXED); return code; }

/* A new entry of the truth. Under the lock. */
static struct stream *add_stream(struct context *context, u64 handle)
{
	struct stream *made = calloc(1, sizeof(*made));

	*made = (struct stream){ .context = context, .handle = handle, .next = streams };
	return streams = made;
}

static struct stream *find_stream(struct context *context, u64 handle)
{
	struct stream *found = streams;

	while (found && (found->context != context || found->handle != handle))
		found = found->next;
	return found ? found : add_stream(context, handle);
}

/* The stream of a handle. Default streams are each context's own; with `own`, 0 is the
 * thread's. */
static struct stream *at(u64 handle, int own)
{
	u64 shown = handle == 0 ? (own ? 2 : 0) : handle == 1 ? 0 : handle;
	struct stream *found;

	if (shown > 2)
		return (struct stream *)handle;
	pthread_mutex_lock(&lock);
	found = find_stream(now(), shown);
	pthread_mutex_unlock(&lock);
	return found;
}

static int sum(struct stream *stream, int what, u64 value) { __atomic_fetch_add(&stream->sums[what], value, __ATOMIC_RELAXED); return 0; }

/* The address of a stream that was destroyed is used again. What it did in another
 * context is that context's still. */
static int make_stream(struct stream **out)
{
	struct stream *made, *others;

	pthread_mutex_lock(&lock);
	made = spare_streams;
	if (made) {
		spare_streams = made->spare;
		if (made->context != now()) {
			others = find_stream(made->context, OTHERS);
			for (int i = 0; i < SUMS; i++) {
				others->sums[i] += made->sums[i];
				made->sums[i] = 0;
			}
			made->context = now();
		}
	} else {
		made = add_stream(now(), 0);
		made->handle = (u64)made;
	}
	made->capture = NULL;
	pthread_mutex_unlock(&lock);
	*out = made;
	return 0;
}

static int drop_stream(struct stream *stream)
{
	pthread_mutex_lock(&lock);
	stream->spare = spare_streams;
	spare_streams = stream;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int allocate(u64 *out, u64 size, int kind)
{
	struct context *context = now();
	struct block *block = malloc(sizeof(*block));

	pthread_mutex_lock(&lock);
	context->known = 1;
	if (size > 1ul << 40) {
		context->number[2]++;
		pthread_mutex_unlock(&lock);
		return fail(2);
	}
	*block = (struct block){ next_address += 0x100000, size, kind, context, blocks };
	blocks = block;
	*out = block->at;
	context->number[0]++;
	context->bytes[kind] += size;
	if (context->bytes[DEVICE] + context->bytes[PHYSICAL] > context->peak)
		context->peak = context->bytes[DEVICE] + context->bytes[PHYSICAL];
	pthread_mutex_unlock(&lock);
	return 0;
}

static void free_block(struct block **place)
{
	struct block *found = *place;

	*place = found->next;
	found->context->number[1]++;
	found->context->bytes[found->kind] -= found->size;
	free(found);
}

static int release(u64 address)
{
	struct block **place;
	int is_known;

	pthread_mutex_lock(&lock);
	for (place = &blocks; *place && (*place)->at != address; place = &(*place)->next)
		;
	is_known = *place != NULL;
	if (is_known)
		free_block(place);
	pthread_mutex_unlock(&lock);
	return is_known || !address ? 0 : fail(1);
}

/* Frees what a context has. Physical memory is the device's. */
static void release_all(struct context *context)
{
	struct block **place = &blocks;

	pthread_mutex_lock(&lock);
	while (*place)
		if ((*place)->context == context && (*place)->kind != PHYSICAL)
			free_block(place);
		else
			place = &(*place)->next;
	pthread_mutex_unlock(&lock);
}

/* What is handed to a stream runs, or is kept in the graph that the stream fills. */
static int launch(struct stream *stream, int good)
{
	if (!good)
		return fail(1);
	if (stream->capture) {
		__atomic_fetch_add(&stream->capture->kernels, 1, __ATOMIC_RELAXED);
		return sum(stream, CAPTURED, 1);
	}
	return sum(stream, LAUNCHES, 1);
}

static int launch_graph(struct stream *stream, struct graph *graph)
{
	if (stream->capture) {
		__atomic_fetch_add(&stream->capture->kernels, graph->kernels, __ATOMIC_RELAXED);
		return 0;
	}
	sum(stream, GRAPHS, 1);
	return sum(stream, KERNELS, graph->kernels);
}

static int call_host(struct stream *stream, void (*function)(void *), void *data)
{
	if (stream->capture)
		return 0;
	function(data);
	return sum(stream, HOSTED, 1);
}

static int copy(struct stream *stream, int direction, u64 many, u64 size)
{
	if (stream->capture)
		return 0;
	sum(stream, COPIES, many);
	return sum(stream, direction, size);
}

static int fill(struct stream *stream, u64 size)
{
	if (stream->capture)
		return 0;
	sum(stream, FILLS, 1);
	return sum(stream, FILLED, size);
}

static int wait_for(struct context *context)
{
	context->known = 1;
	__atomic_fetch_add(&context->waits, 1, __ATOMIC_RELAXED);
	return 0;
}

static int query(struct stream *stream) { return (__atomic_fetch_add(&stream->sums[QUERIES], 1, __ATOMIC_RELAXED) & 1) ? 600 : 0; }

static int begin_capture(struct stream *stream, struct graph *into)
{
	stream->capture = into ? into : calloc(1, sizeof(*into));
	stream->capture->origin = stream;
	return 0;
}

/* All streams that took part leave it. */
static int end_capture(struct stream *stream, struct graph **out)
{
	pthread_mutex_lock(&lock);
	*out = stream->capture;
	(*out)->origin = NULL;
	for (struct stream *each = streams; each; each = each->next)
		if (each->capture == *out)
			each->capture = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int make_graph(struct graph **out, struct graph *from)
{
	*out = calloc(1, sizeof(**out));
	(*out)->kernels = from->kernels;
	return 0;
}

static int make_event(struct event **out) { *out = calloc(1, sizeof(**out)); return 0; }

static int record(struct event *event, struct stream *stream)
{
	*event = (struct event){ stream, stream->capture };
	return 0;
}

/* A stream that waits for an event of a capture takes part in it. */
static int stream_waits(struct stream *stream, struct event *event)
{
	if (event->capture && event->capture->origin && !stream->capture)
		stream->capture = event->capture;
	return 0;
}

static char all_at_once[1 << 17];

__attribute__((destructor)) static void tell(void)
{
	FILE *file = getenv("TRUTH") ? fopen(getenv("TRUTH"), "a") : NULL;

	if (!file)
		return;
	/* One write: processes that end together do not write into each other's lines. */
	setvbuf(file, all_at_once, _IOFBF, sizeof all_at_once);
	for (struct stream *s = streams; s; s = s->next) {
		fprintf(file, "stream %lu %lu", s->context ? s->context->shown : 0, s->handle);
		for (int i = 0; i < SUMS; i++)
			fprintf(file, " %lu", s->sums[i]);
		fprintf(file, "\n");
	}
	for (struct context *c = contexts; c; c = c->next)
		if (c->known)
			fprintf(file, "context %lu %d %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", c->shown, c->device, c->number[0], c->number[1],
				c->number[2], c->bytes[0], c->bytes[1], c->bytes[2], c->bytes[3], c->peak, c->waits);
	for (int code = 1; code < 1024; code++)
		if (errors[code])
			fprintf(file, "error %d %lu\n", code, errors[code]);
	for (struct function *f = __start_functions; f < __stop_functions; f++)
		fprintf(file, "function %s %d\n", f->name, f->called);
	fclose(file);
}
