/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A stand-in for the runtime of HIP, and a client of it (-DCLIENT). Compiled with
 * -O0 and -fcf-protection its functions begin as those of Debian's libamdhip64 do:
 * endbr64, push. At exit it appends what was really called to the file
 * that TRUTH names, in the words of cuda/driver.c; a device is a context, counted from 1.
 *
 *   hip [-t THREADS] VERB[:NUMBER]...
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u64;
typedef struct { unsigned x, y, z; } dim3;
struct config { dim3 grid, block; u64 shared; u64 stream; };

#define SHAPE void *f, dim3 grid, dim3 block, void **arguments, u64 shared, u64 stream
#define NUMBERS void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, u64 stream

#ifndef CLIENT
enum { LAUNCHES, GRAPHS, KERNELS, CAPTURED, HOSTED, COPIES, TO, FROM, ON, EITHER, FILLS, FILLED, WAITS, QUERIES, SUMS };
enum { DEVICE, MANAGED, HOST, PHYSICAL };
struct device { u64 number[3], bytes[4], peak, waits; int known; };
struct stream { int device; u64 handle, sums[SUMS]; u64 *capture; struct stream *next; };
struct block { u64 at, size; int kind, device; struct block *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[4];
static struct stream *streams;
static struct block *blocks;
static u64 errors[1024], next_address = 0x7e0000000000;
static __thread int now;

static int fail(int code) { __atomic_fetch_add(&errors[code], 1, __ATOMIC_RELAXED); return code; }

static struct stream *at(u64 handle, int own)
{
	struct stream *found;
	u64 shown = handle == 0 ? (own ? 2 : 0) : handle == 1 ? 0 : handle;

	if (shown > 2)
		return (struct stream *)handle;
	pthread_mutex_lock(&lock);
	for (found = streams; found; found = found->next)
		if (found->device == now && found->handle == shown)
			break;
	if (!found) {
		found = calloc(1, sizeof(*found));
		*found = (struct stream){ now, shown, {0}, NULL, streams };
		streams = found;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int sum(struct stream *stream, int what, u64 value) { __atomic_fetch_add(&stream->sums[what], value, __ATOMIC_RELAXED); return 0; }

static int launch(struct stream *stream)
{
	if (!stream->capture)
		return sum(stream, LAUNCHES, 1);
	++*stream->capture;
	return sum(stream, CAPTURED, 1);
}

static int allocate(u64 *out, u64 size, int kind)
{
	struct device *device = &devices[now];
	struct block *block;

	pthread_mutex_lock(&lock);
	device->known = 1;
	if (size > 1ul << 40) {
		device->number[2]++;
		pthread_mutex_unlock(&lock);
		return fail(2);
	}
	block = malloc(sizeof(*block));
	*block = (struct block){ next_address += 0x100000, size, kind, now, blocks };
	blocks = block;
	*out = block->at;
	device->number[0]++;
	device->bytes[kind] += size;
	if (device->bytes[DEVICE] + device->bytes[PHYSICAL] > device->peak)
		device->peak = device->bytes[DEVICE] + device->bytes[PHYSICAL];
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
		devices[found->device].number[1]++;
		devices[found->device].bytes[found->kind] -= found->size;
	}
	pthread_mutex_unlock(&lock);
	free(found);
	return found ? 0 : fail(1);
}

static int copy(struct stream *stream, int kind, u64 size)
{
	sum(stream, COPIES, 1);
	return sum(stream, kind == 1 ? TO : kind == 2 ? FROM : kind == 3 ? ON : EITHER, size);
}

static int fill(struct stream *stream, u64 size) { sum(stream, FILLS, 1); return sum(stream, FILLED, size); }
static int query(struct stream *stream) { return (__atomic_fetch_add(&stream->sums[QUERIES], 1, __ATOMIC_RELAXED) & 1) ? 600 : 0; }

/* `own`: the default stream is the thread's. */
#define ONE(name, parameters, does) int name parameters { enum { own = 0 }; return does; }
#define TWO(name, parameters, does) ONE(name, parameters, does) int name##_spt parameters { enum { own = 1 }; return does; }

ONE(hipSetDevice, (int device), (now = device, 0))
ONE(hipGetDevice, (int *out), (*out = now, 0))
static int make(struct stream **out)
{
	struct stream *made = calloc(1, sizeof(*made));

	pthread_mutex_lock(&lock);
	*made = (struct stream){ now, (u64)made, {0}, NULL, streams };
	streams = made;
	pthread_mutex_unlock(&lock);
	*out = made;
	return 0;
}
ONE(hipStreamCreate, (struct stream **out), make(out))
TWO(hipLaunchKernel, (SHAPE), launch(at(stream, own)))
TWO(hipLaunchCooperativeKernel, (SHAPE), launch(at(stream, own)))
ONE(hipExtLaunchKernel, (SHAPE, void *start, void *stop, int flags), launch(at(stream, own)))
ONE(hipModuleLaunchKernel, (NUMBERS, void **p, void **x), bx > 1024 ? fail(9) : launch(at(stream, own)))
ONE(hipExtModuleLaunchKernel, (NUMBERS, u64 size, void **p, void **x, void *start, void *stop, unsigned flags), launch(at(stream, own)))
ONE(hipDrvLaunchKernelEx, (struct config *config, void *f, void **p, void **x), launch(at(config->stream, own)))
TWO(hipLaunchHostFunc, (u64 stream, void (*f)(void *), void *x), (f(x), sum(at(stream, own), HOSTED, 1)))
TWO(hipStreamBeginCapture, (u64 stream, int mode), (at(stream, own)->capture = calloc(1, sizeof(u64)), 0))
TWO(hipStreamEndCapture, (u64 stream, u64 **out), (*out = at(stream, own)->capture, at(stream, own)->capture = NULL, 0))
ONE(hipGraphInstantiate, (u64 **out, u64 *graph, void *a, void *b, u64 c), (*out = malloc(sizeof(u64)), **out = *graph, 0))
TWO(hipGraphLaunch, (u64 *graph, u64 stream), (sum(at(stream, own), GRAPHS, 1), sum(at(stream, own), KERNELS, *graph)))
TWO(hipMemcpy, (u64 to, u64 from, u64 size, int kind), copy(at(0, own), kind, size))
TWO(hipMemcpyAsync, (u64 to, u64 from, u64 size, int kind, u64 stream), copy(at(stream, own), kind, size))
ONE(hipMemcpyWithStream, (u64 to, u64 from, u64 size, int kind, u64 stream), copy(at(stream, own), kind, size))
ONE(hipMemcpyHtoD, (u64 to, u64 from, u64 size), copy(at(0, own), 1, size))
ONE(hipMemcpyDtoH, (u64 to, u64 from, u64 size), copy(at(0, own), 2, size))
TWO(hipMemset, (u64 to, int value, u64 size), fill(at(0, own), size))
TWO(hipMemsetAsync, (u64 to, int value, u64 size, u64 stream), fill(at(stream, own), size))
ONE(hipMalloc, (u64 *out, u64 size), allocate(out, size, DEVICE))
ONE(hipMallocManaged, (u64 *out, u64 size, unsigned flags), allocate(out, size, MANAGED))
ONE(hipHostMalloc, (u64 *out, u64 size, unsigned flags), allocate(out, size, HOST))
ONE(hipMallocAsync, (u64 *out, u64 size, u64 stream), allocate(out, size, DEVICE))
ONE(hipFree, (u64 address), release(address))
ONE(hipFreeAsync, (u64 address, u64 stream), release(address))
ONE(hipHostFree, (u64 address), release(address))
TWO(hipStreamSynchronize, (u64 stream), sum(at(stream, own), WAITS, 1))
TWO(hipStreamQuery, (u64 stream), query(at(stream, own)))
ONE(hipDeviceSynchronize, (void), (devices[now].known = 1, __atomic_fetch_add(&devices[now].waits, 1, __ATOMIC_RELAXED), 0))
ONE(hipEventCreate, (struct stream ***out), (*out = calloc(1, sizeof(**out)), 0))
TWO(hipEventRecord, (struct stream **event, u64 stream), (*event = at(stream, own), 0))
ONE(hipEventSynchronize, (struct stream **event), sum(*event, WAITS, 1))
ONE(hipEventQuery, (struct stream **event), query(*event))

__attribute__((destructor)) static void tell(void)
{
	FILE *file = getenv("TRUTH") ? fopen(getenv("TRUTH"), "a") : NULL;

	if (!file)
		return;
	for (struct stream *s = streams; s; s = s->next) {
		fprintf(file, "stream %d %lu", s->device + 1, s->handle);
		for (int i = 0; i < SUMS; i++)
			fprintf(file, " %lu", s->sums[i]);
		fprintf(file, "\n");
	}
	for (int i = 0; i < 4; i++) {
		struct device *d = &devices[i];

		if (d->known)
			fprintf(file, "context %d %d %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", i + 1, i, d->number[0], d->number[1],
				d->number[2], d->bytes[0], d->bytes[1], d->bytes[2], d->bytes[3], d->peak, d->waits);
	}
	for (int code = 1; code < 1024; code++)
		if (errors[code])
			fprintf(file, "error %d %lu\n", code, errors[code]);
	fclose(file);
}
#else
#ifdef OWN
#define SPT(name) name##_spt
#else
#define SPT(name) name
#endif
int hipSetDevice(int), hipGetDevice(int *), hipStreamCreate(u64 *), SPT(hipLaunchKernel)(SHAPE), SPT(hipLaunchCooperativeKernel)(SHAPE);
int hipExtLaunchKernel(SHAPE, void *, void *, int), hipModuleLaunchKernel(NUMBERS, void **, void **);
int hipExtModuleLaunchKernel(NUMBERS, u64, void **, void **, void *, void *, unsigned), hipDrvLaunchKernelEx(struct config *, void *, void **, void **);
int SPT(hipLaunchHostFunc)(u64, void (*)(void *), void *), SPT(hipStreamBeginCapture)(u64, int), SPT(hipStreamEndCapture)(u64, u64 **);
int hipGraphInstantiate(u64 **, u64 *, void *, void *, u64), SPT(hipGraphLaunch)(u64 *, u64), SPT(hipMemcpy)(u64, u64, u64, int), SPT(hipMemcpyAsync)(u64, u64, u64, int, u64);
int hipMemcpyWithStream(u64, u64, u64, int, u64), hipMemcpyHtoD(u64, u64, u64), hipMemcpyDtoH(u64, u64, u64), SPT(hipMemset)(u64, int, u64), SPT(hipMemsetAsync)(u64, int, u64, u64);
int hipMalloc(u64 *, u64), hipMallocManaged(u64 *, u64, unsigned), hipHostMalloc(u64 *, u64, unsigned), hipMallocAsync(u64 *, u64, u64), hipFree(u64), hipFreeAsync(u64, u64), hipHostFree(u64);
int SPT(hipStreamSynchronize)(u64), SPT(hipStreamQuery)(u64), hipDeviceSynchronize(void), hipEventCreate(u64 *), SPT(hipEventRecord)(u64, u64), hipEventSynchronize(u64), hipEventQuery(u64);

static char **verbs;
static int verb_count;
static void on_host(void *x) { (void)x; }

static void obey(const char *verb, u64 n, u64 *stream)
{
	dim3 one = { 1, 1, 1 };
	u64 a = 0, s = *stream, *graph, *executable, event;
	struct config config = { one, one, 0, s };
	int device;
#define IS(word) (!strncmp(verb, word, strcspn(verb, ":")) && strlen(word) == strcspn(verb, ":"))
#define TIMES for (u64 i = 0; i < n; i++)
	if (IS("device")) hipSetDevice((int)n);
	else if (IS("current")) hipGetDevice(&device);
	else if (IS("stream")) hipStreamCreate(stream);
	else if (IS("launch")) TIMES SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, s);
	else if (IS("legacy")) TIMES SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, 1);
	else if (IS("own")) TIMES SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, 2);
	else if (IS("together")) TIMES SPT(hipLaunchCooperativeKernel)(NULL, one, one, NULL, 0, s);
	else if (IS("further")) TIMES hipExtLaunchKernel(NULL, one, one, NULL, 0, s, NULL, NULL, 0);
	else if (IS("module")) TIMES { hipModuleLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL); hipExtModuleLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, s, 0, NULL, NULL, NULL, NULL, 0); }
	else if (IS("bad")) TIMES hipModuleLaunchKernel(NULL, 1, 1, 1, 2048, 1, 1, 0, s, NULL, NULL);
	else if (IS("config")) TIMES hipDrvLaunchKernelEx(&config, NULL, NULL, NULL);
	else if (IS("function")) TIMES SPT(hipLaunchHostFunc)(s, on_host, NULL);
	else if (IS("graph")) {
		SPT(hipStreamBeginCapture)(s, 0);
		for (int i = 0; i < 3; i++)
			SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, s);
		SPT(hipStreamEndCapture)(s, &graph);
		hipGraphInstantiate(&executable, graph, NULL, NULL, 0);
		TIMES SPT(hipGraphLaunch)(executable, s);
	}
	else if (IS("copies")) {
		for (int kind = 0; kind < 5; kind++) {
			SPT(hipMemcpy)(0, 0, n << kind, kind); SPT(hipMemcpyAsync)(0, 0, n << kind, kind, s); hipMemcpyWithStream(0, 0, n, kind, s);
		}
		hipMemcpyHtoD(0, 0, 3 * n); hipMemcpyDtoH(0, 0, 5 * n);
	}
	else if (IS("fills")) { SPT(hipMemset)(0, 1, n); SPT(hipMemsetAsync)(0, 1, 2 * n, s); }
	else if (IS("memory")) {
		hipMalloc(&a, n); hipMalloc(&a, n); hipFree(a); hipMalloc(&a, 1ul << 50); hipFree(0x1234); hipMallocManaged(&a, n, 1);
		hipHostMalloc(&a, n, 0); hipHostFree(a); hipHostMalloc(&a, n, 0); hipMallocAsync(&a, n, s); hipFreeAsync(a, s);
	}
	else if (IS("waits")) TIMES {
		SPT(hipStreamSynchronize)(s); SPT(hipStreamQuery)(s); hipDeviceSynchronize();
		hipEventCreate(&event); SPT(hipEventRecord)(event, s); hipEventQuery(event); hipEventSynchronize(event);
	}
	else if (IS("stop")) { puts("stopped"); fflush(stdout); getchar(); }
	else { fprintf(stderr, "hip: no verb %s\n", verb); exit(2); }
}

static void *thread(void *x)
{
	u64 stream = 0;

	(void)x;
	for (int i = 0; i < verb_count; i++) {
		char *colon = strchr(verbs[i], ':');
		obey(verbs[i], colon ? strtoul(colon + 1, NULL, 0) : 1, &stream);
	}
	return NULL;
}

int main(int count, char **words)
{
	int threads = 1, option;
	pthread_t all[64];

	while ((option = getopt(count, words, "+t:")) != -1)
		threads = atoi(optarg);
	verbs = words + optind;
	verb_count = count - optind;
	for (int i = 1; i < threads; i++)
		pthread_create(&all[i], NULL, thread, NULL);
	thread(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
#endif
