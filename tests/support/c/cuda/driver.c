/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A stand-in for the driver's library of CUDA. Its exported functions begin with
 * the instructions of the real one (cmpl, je at +10, jmp), and it keeps the
 * truth: at exit it appends to the file that TRUTH names what was really called.
 *
 *   stream CONTEXT STREAM launches graphs kernels captured host copies to from on
 *          unknown fills bytes waits queries
 *   context CONTEXT DEVICE allocations frees failed device managed host physical
 *           peak waits
 *   error CODE COUNT
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
enum { LAUNCHES, GRAPHS, KERNELS, CAPTURED, HOSTED, COPIES, TO, FROM, ON, EITHER, FILLS, FILLED, WAITS, QUERIES, SUMS };
enum { DEVICE, MANAGED, HOST, PHYSICAL };

struct graph { u64 kernels; };
struct context { u64 number[3], bytes[4], peak, waits; int device, known; };
struct stream { struct context *context; u64 handle, sums[SUMS]; struct graph *capture; struct stream *next; };
struct event { struct stream *at; };
struct block { u64 at, size; int kind; struct context *context; struct block *next; };
struct config { unsigned shape[7]; struct stream *stream; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context primary[4];
static struct stream *streams;
static struct block *blocks;
static u64 errors[1024], next_address = 0x7f0000000000;
static __thread struct context *stack[8];
static __thread int depth;

static struct context *now(void) { return depth ? stack[depth - 1] : NULL; }
static int fail(int code) { __atomic_fetch_add(&errors[code], 1, __ATOMIC_RELAXED); return code; }

/* The stream of a handle. Default streams are each context's own. */
static struct stream *at(u64 handle, int per_thread)
{
	struct stream *found;
	u64 shown = handle == 0 ? (per_thread ? 2 : 0) : handle == 1 ? 0 : handle;

	if (shown > 2)
		return (struct stream *)handle;
	pthread_mutex_lock(&lock);
	for (found = streams; found; found = found->next)
		if (found->context == now() && found->handle == shown)
			break;
	if (!found) {
		found = calloc(1, sizeof(*found));
		*found = (struct stream){ now(), shown, {0}, NULL, streams };
		streams = found;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int sum(struct stream *stream, int what, u64 value) { __atomic_fetch_add(&stream->sums[what], value, __ATOMIC_RELAXED); return 0; }

static int allocate(u64 *out, u64 size, int kind)
{
	struct context *context = now();
	struct block *block = malloc(sizeof(*block));

	if (size > 1ul << 40) {
		__atomic_fetch_add(&context->number[2], 1, __ATOMIC_RELAXED);
		return fail(2);
	}
	pthread_mutex_lock(&lock);
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

static int release(u64 address)
{
	struct block **place, *found;

	pthread_mutex_lock(&lock);
	for (place = &blocks; (found = *place) && found->at != address; place = &found->next)
		;
	if (found) {
		*place = found->next;
		found->context->number[1]++;
		found->context->bytes[found->kind] -= found->size;
	}
	pthread_mutex_unlock(&lock);
	free(found);
	return found || !address ? 0 : fail(1);
}

static int launch(struct stream *stream, int good)
{
	if (!good)
		return fail(1);
	if (stream->capture) {
		stream->capture->kernels++;
		return sum(stream, CAPTURED, 1);
	}
	return sum(stream, LAUNCHES, 1);
}

static int copy(struct stream *stream, int direction, u64 size) { sum(stream, COPIES, 1); return sum(stream, TO + direction, size); }
static int fill(struct stream *stream, u64 size) { sum(stream, FILLS, 1); return sum(stream, FILLED, size); }
static int query(struct stream *stream) { return (__atomic_fetch_add(&stream->sums[QUERIES], 1, __ATOMIC_RELAXED) & 1) ? 600 : 0; }

/* An exported function; with a suffix, also its variant for threads' streams. */
#define EXPORT(name) static void *slot_##name __attribute__((used)) = do_##name; \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n.p2align 5\n" #name ":\n" \
		"cmpl $0x5aab7818, state(%rip)\nje 1f\njmp *slot_" #name "(%rip)\n1: jmp *slot_" #name "(%rip)\n" \
		".size " #name ", .-" #name "\n");
#define ONE(name, parameters, does) static int do_##name parameters { return does; } EXPORT(name)
#define TWO(name, suffix, parameters, does) \
	static int do_##name parameters { enum { own = 0 }; return does; } EXPORT(name) \
	static int do_##name##suffix parameters { enum { own = 1 }; return does; } EXPORT(name##suffix)
static int state __attribute__((used));

#define SHAPE void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared
ONE(cuInit, (unsigned flags), (int)flags)
ONE(cuDeviceGetUuid, (uint8_t *out, int device), (memset(out, 0x10 + device, 16), 0))
ONE(cuDeviceGetUuid_v2, (uint8_t *out, int device), (memset(out, 0x20 + device, 16), 0))
ONE(cuDevicePrimaryCtxRetain, (struct context **out, int device), (*out = &primary[device], primary[device].device = device, primary[device].known = 1, 0))
ONE(cuCtxSetCurrent, (struct context *context), (depth ? (void)(context ? (stack[depth - 1] = context) : (depth--, context)) : (void)(context ? (stack[depth++] = context) : context), 0))
ONE(cuCtxPushCurrent_v2, (struct context *context), (stack[depth++] = context, 0))
ONE(cuCtxPopCurrent_v2, (struct context **out), (*out = stack[--depth], 0))
ONE(cuCtxGetCurrent, (struct context **out), (*out = now(), 0))
ONE(cuCtxSynchronize, (void), (now()->waits++, 0))
static int make_stream(struct stream **out)
{
	struct stream *made = calloc(1, sizeof(*made));

	pthread_mutex_lock(&lock);
	*made = (struct stream){ now(), (u64)made, {0}, NULL, streams };
	streams = made;
	pthread_mutex_unlock(&lock);
	*out = made;
	return 0;
}
ONE(cuStreamCreate, (struct stream **out, unsigned flags), ((void)flags, make_stream(out)))
TWO(cuLaunchKernel, _ptsz, (SHAPE, u64 s, void **p, void **x), launch(at(s, own), gx && bx <= 1024))
TWO(cuLaunchCooperativeKernel, _ptsz, (SHAPE, u64 s, void **p), launch(at(s, own), gx && bx <= 1024))
TWO(cuLaunchKernelEx, _ptsz, (struct config *c, void *f, void **p, void **x), launch(at((u64)c->stream, own), 1))
TWO(cuLaunchHostFunc, _ptsz, (u64 s, void (*f)(void *), void *x), (f(x), sum(at(s, own), HOSTED, 1)))
TWO(cuStreamBeginCapture_v2, _ptsz, (u64 s, int mode), (at(s, own)->capture = calloc(1, sizeof(struct graph)), 0))
TWO(cuStreamEndCapture, _ptsz, (u64 s, struct graph **out), (*out = at(s, own)->capture, at(s, own)->capture = NULL, 0))
ONE(cuGraphInstantiateWithFlags, (struct graph **out, struct graph *graph, u64 flags), (*out = calloc(1, sizeof(**out)), **out = *graph, 0))
TWO(cuGraphLaunch, _ptsz, (struct graph *graph, u64 s), (sum(at(s, own), GRAPHS, 1), sum(at(s, own), KERNELS, graph->kernels)))
TWO(cuMemcpyHtoD_v2, _ptds, (u64 to, void *from, u64 size), copy(at(0, own), 0, size))
TWO(cuMemcpyDtoH_v2, _ptds, (void *to, u64 from, u64 size), copy(at(0, own), 1, size))
TWO(cuMemcpyDtoD_v2, _ptds, (u64 to, u64 from, u64 size), copy(at(0, own), 2, size))
TWO(cuMemcpy, _ptds, (u64 to, u64 from, u64 size), copy(at(0, own), 3, size))
TWO(cuMemcpyHtoDAsync_v2, _ptsz, (u64 to, void *from, u64 size, u64 s), copy(at(s, own), 0, size))
TWO(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, u64 from, u64 size, u64 s), copy(at(s, own), 1, size))
TWO(cuMemcpyPeerAsync, _ptsz, (u64 to, void *a, u64 from, void *b, u64 size, u64 s), copy(at(s, own), 2, size))
TWO(cuMemcpyAsync, _ptsz, (u64 to, u64 from, u64 size, u64 s), copy(at(s, own), 3, size))
#define FIELD(type, c, offset) (*(type *)((char *)(c) + (offset)))
TWO(cuMemcpy2DAsync_v2, _ptsz, (void *c, u64 s), copy(at(s, own), FIELD(int, c, 16) == 1 ? 0 : 1, FIELD(u64, c, 112) * FIELD(u64, c, 120)))
TWO(cuMemcpy3DAsync_v2, _ptsz, (void *c, u64 s), copy(at(s, own), FIELD(int, c, 32) == 1 ? 0 : 1, FIELD(u64, c, 176) * FIELD(u64, c, 184) * FIELD(u64, c, 192)))
static u64 total(u64 *sizes, u64 count) { return count ? *sizes + total(sizes + 1, count - 1) : 0; }
TWO(cuMemcpyBatchAsync, _ptsz, (u64 *to, u64 *from, u64 *sizes, u64 count, void *a, u64 *b, u64 n, u64 *failed, u64 s), (sum(at(s, own), COPIES, count), sum(at(s, own), EITHER, total(sizes, count))))
TWO(cuMemsetD8_v2, _ptds, (u64 to, int value, u64 count), fill(at(0, own), count))
TWO(cuMemsetD16_v2, _ptds, (u64 to, int value, u64 count), fill(at(0, own), count * 2))
TWO(cuMemsetD32Async, _ptsz, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count * 4))
TWO(cuMemsetD2D32Async, _ptsz, (u64 to, u64 pitch, int value, u64 width, u64 height, u64 s), fill(at(s, own), width * height * 4))
ONE(cuMemAlloc_v2, (u64 *out, u64 size), allocate(out, size, DEVICE))
ONE(cuMemAllocPitch_v2, (u64 *out, u64 *pitch, u64 width, u64 height, unsigned element), (*pitch = (width + 511) & ~511ul, allocate(out, *pitch * height, DEVICE)))
ONE(cuMemAllocManaged, (u64 *out, u64 size, unsigned flags), allocate(out, size, MANAGED))
ONE(cuMemHostAlloc, (u64 *out, u64 size, unsigned flags), allocate(out, size, HOST))
ONE(cuMemCreate, (u64 *out, u64 size, void *what, u64 flags), allocate(out, size, PHYSICAL))
TWO(cuMemAllocAsync, _ptsz, (u64 *out, u64 size, u64 s), allocate(out, size, DEVICE))
ONE(cuMemFree_v2, (u64 address), release(address))
TWO(cuMemFreeAsync, _ptsz, (u64 address, u64 s), release(address))
ONE(cuMemFreeHost, (u64 address), release(address))
ONE(cuMemRelease, (u64 handle), release(handle))
TWO(cuStreamSynchronize, _ptsz, (u64 s), sum(at(s, own), WAITS, 1))
TWO(cuStreamQuery, _ptsz, (u64 s), query(at(s, own)))
ONE(cuEventCreate, (struct event **out, unsigned flags), (*out = calloc(1, sizeof(**out)), 0))
TWO(cuEventRecord, _ptsz, (struct event *event, u64 s), (event->at = at(s, own), 0))
ONE(cuEventSynchronize, (struct event *event), sum(event->at, WAITS, 1))
ONE(cuEventQuery, (struct event *event), query(event->at))

__attribute__((destructor)) static void tell(void)
{
	FILE *file = getenv("TRUTH") ? fopen(getenv("TRUTH"), "a") : NULL;

	if (!file)
		return;
	for (struct stream *s = streams; s; s = s->next) {
		fprintf(file, "stream %lu %lu", (u64)s->context, s->handle);
		for (int i = 0; i < SUMS; i++)
			fprintf(file, " %lu", s->sums[i]);
		fprintf(file, "\n");
	}
	for (struct context *c = primary; c < primary + 4; c++)
		if (c->known)
			fprintf(file, "context %lu %d %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", (u64)c, c->device, c->number[0], c->number[1],
				c->number[2], c->bytes[0], c->bytes[1], c->bytes[2], c->bytes[3], c->peak, c->waits);
	for (int code = 1; code < 1024; code++)
		if (errors[code])
			fprintf(file, "error %d %lu\n", code, errors[code]);
	fclose(file);
}
