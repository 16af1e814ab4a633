/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A stand-in for the driver's library of CUDA, with every function that gpumap counts.
 * Its exported functions begin with the instructions of the real one (cmpl, je at +10,
 * jmp). At exit it tells the truth (standin.h).
 *
 * A context is called by its address, and above 48 bits stands how many contexts of
 * other devices were at this address before.
 */
#include "../standin.h"

struct config { unsigned shape[7]; struct stream *stream; };

static struct context *primary[4], *spare_contexts;
/* At fixed offsets: in a program that is linked statically nobody serves other ones. */
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THREAD struct context *stack[8];
OF_THREAD int depth;

static struct context *now(void) { return depth ? stack[depth - 1] : NULL; }
static int push(struct context *context) { stack[depth++] = context; return 0; }
static int pop(struct context **out) { *out = stack[--depth]; return 0; }

static int set_current(struct context *context)
{
	if (depth)
		depth--;
	return context ? push(context) : 0;
}

/* Under the lock. */
static struct context *add_context(int device)
{
	struct context *made = calloc(1, sizeof(*made));

	*made = (struct context){ .shown = (u64)made, .device = device, .next = contexts };
	return contexts = made;
}

/* A context of another device came to this address: what was before is past. */
static void rename_context(struct context *context, int device)
{
	struct context *past = add_context(context->device), *next = past->next;

	*past = *context;
	past->next = next;
	for (struct stream *each = streams; each; each = each->next)
		if (each->context == context)
			each->context = past;
	next = context->next;
	*context = (struct context){ .shown = (u64)context | (past->renamed + 1) << 48, .renamed = past->renamed + 1,
		.device = device, .next = next };
}

/* The address of a context that was destroyed is used again. */
static int create(struct context **out, int device)
{
	struct context *made;

	pthread_mutex_lock(&lock);
	made = spare_contexts;
	if (made) {
		spare_contexts = made->spare;
		if (made->device != device)
			rename_context(made, device);
	} else {
		made = add_context(device);
	}
	made->known = 1;
	pthread_mutex_unlock(&lock);
	*out = made;
	return push(made);
}

static int destroy(struct context *context)
{
	release_all(context);
	if (now() == context)
		depth--;
	pthread_mutex_lock(&lock);
	context->spare = spare_contexts;
	spare_contexts = context;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int retain(struct context **out, int device)
{
	pthread_mutex_lock(&lock);
	if (!primary[device])
		primary[device] = add_context(device);
	*out = primary[device];
	(*out)->known = 1;
	(*out)->retained++;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int give_up(int device)
{
	if (__atomic_sub_fetch(&primary[device]->retained, 1, __ATOMIC_RELAXED) == 0)
		release_all(primary[device]);
	return 0;
}

static int reset(int device) { release_all(primary[device]); return 0; }

/* Waits for a stream. STANDIN_HOLD names a FIFO: the wait lasts until somebody writes a line
 * into it. With STANDIN_CODES it fails, each time with another code. */
static int wait_for_stream(struct stream *stream)
{
	static int codes = 1000;
	FILE *hold = getenv("STANDIN_HOLD") ? fopen(getenv("STANDIN_HOLD"), "r") : NULL;

	if (hold) {
		getc(hold);
		fclose(hold);
	}
	if (getenv("STANDIN_CODES"))
		return codes++;
	return sum(stream, WAITS, 1);
}

/* How an exported function begins and goes on to its slot: on x86-64 as in NVIDIA's driver. */
#ifdef __aarch64__
#define GO_ON(slot) "bti c\nadrp x16, state\nldr w16, [x16, :lo12:state]\ncbz w16, 1f\n" \
	"1: adrp x16, " slot "\nldr x16, [x16, :lo12:" slot "]\nbr x16\n"
#else
#define GO_ON(slot) "cmpl $0x5aab7818, state(%rip)\nje 1f\njmp *" slot "(%rip)\n1: jmp *" slot "(%rip)\n"
#endif

/* An exported function; with a suffix, also its variant for threads' streams. */
#define EXPORT(name) static void *slot_##name __attribute__((used)) = do_##name; void name(void); REGISTER(name, name) \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n.p2align 5\n" #name ":\n" \
		GO_ON("slot_" #name) \
		".size " #name ", .-" #name "\n");
#define DEFINE(name, is_own, parameters, does) static struct function function_##name; \
	static int do_##name parameters { enum { own = is_own }; function_##name.called = 1; return does; } EXPORT(name)
#define ONE(name, parameters, does) DEFINE(name, 0, parameters, does)
#define TWO(name, suffix, parameters, does) DEFINE(name, 0, parameters, does) DEFINE(name##suffix, 1, parameters, does)
static int state __attribute__((used));

/* Functions that came with a version of CUDA later than 12.9. */
static const struct { const char *name; int since; } later[] = {
	{ "cuCtxSynchronize_v2", 13000 }, { "cuLaunchHostFunc_v2", 13000 }, { "cuMemcpyBatchAsync_v2", 13000 },
};

static int is_known(const char *name, int version)
{
	for (unsigned i = 0; i < sizeof(later) / sizeof(*later); i++)
		if (!strncmp(later[i].name, name, strlen(later[i].name)))
			return version >= later[i].since;
	return 1;
}

/* cuGetProcAddress knows functions by their names without version and variant. The
 * newest one that the asked version of CUDA has is taken; flag 2 wants threads' own
 * default streams. */
static int look_up(const char *name, void **out, int version, u64 flags)
{
	static const char *const versions[] = { "_v4", "_v3", "_v2", "" }, *const own[] = { "_ptsz", "_ptds", "" };
	char text[96];

	for (int o = flags & 2 ? 0 : 2; o < 3; o++)
		for (int v = 0; v < 4; v++) {
			snprintf(text, sizeof(text), "%s%s%s", name, versions[v], own[o]);
			for (struct function *f = __start_functions; f < __stop_functions; f++)
				if (!strcmp(f->name, text) && is_known(text, version)) {
					*out = f->address;
					return 0;
				}
		}
	*out = NULL;
	return 500; /* CUDA_ERROR_NOT_FOUND: no call that gpumap counts */
}

ONE(cuInit, (unsigned flags), (int)flags)
ONE(cuGetProcAddress_v2, (const char *name, void **out, int version, u64 flags, int *status), look_up(name, out, version, flags))
ONE(cuDeviceGetUuid, (uint8_t *out, int device), (memset(out, 0x10 + device, 16), 0))
ONE(cuDeviceGetUuid_v2, (uint8_t *out, int device), (memset(out, 0x20 + device, 16), 0))

/* Contexts. */
ONE(cuDevicePrimaryCtxRetain, (struct context **out, int device), retain(out, device))
ONE(cuDevicePrimaryCtxRelease_v2, (int device), give_up(device))
ONE(cuDevicePrimaryCtxReset_v2, (int device), reset(device))
ONE(cuCtxCreate_v2, (struct context **out, unsigned flags, int device), create(out, device))
ONE(cuCtxCreate_v3, (struct context **out, void *affinity, int count, unsigned flags, int device), create(out, device))
ONE(cuCtxCreate_v4, (struct context **out, void *parameters, unsigned flags, int device), create(out, device))
ONE(cuCtxDestroy_v2, (struct context *context), destroy(context))
ONE(cuCtxSetCurrent, (struct context *context), set_current(context))
ONE(cuCtxPushCurrent_v2, (struct context *context), push(context))
ONE(cuCtxPopCurrent_v2, (struct context **out), pop(out))
ONE(cuCtxGetCurrent, (struct context **out), (*out = now(), 0))
ONE(cuCtxSynchronize, (void), wait_for(now()))
ONE(cuCtxSynchronize_v2, (struct context *context), wait_for(context ? context : now()))

/* Launches. */
#define SHAPE void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared
TWO(cuLaunchKernel, _ptsz, (SHAPE, u64 s, void **p, void **x), launch(at(s, own), gx && bx <= 1024))
TWO(cuLaunchCooperativeKernel, _ptsz, (SHAPE, u64 s, void **p), launch(at(s, own), gx && bx <= 1024))
TWO(cuLaunchKernelEx, _ptsz, (struct config *c, void *f, void **p, void **x), launch(at((u64)c->stream, own), 1))
TWO(cuLaunchHostFunc, _ptsz, (u64 s, void (*f)(void *), void *x), call_host(at(s, own), f, x))
TWO(cuLaunchHostFunc_v2, _ptsz, (u64 s, void (*f)(void *), void *x, unsigned how), call_host(at(s, own), f, x))

/* Graphs. */
TWO(cuStreamBeginCapture_v2, _ptsz, (u64 s, int mode), begin_capture(at(s, own), NULL))
TWO(cuStreamBeginCaptureToGraph, _ptsz, (u64 s, struct graph *graph, void *nodes, void *data, u64 count, int mode), begin_capture(at(s, own), graph))
TWO(cuStreamEndCapture, _ptsz, (u64 s, struct graph **out), end_capture(at(s, own), out))
ONE(cuGraphInstantiate_v2, (struct graph **out, struct graph *graph, void *node, char *text, u64 size), make_graph(out, graph))
ONE(cuGraphInstantiateWithFlags, (struct graph **out, struct graph *graph, u64 flags), make_graph(out, graph))
TWO(cuGraphInstantiateWithParams, _ptsz, (struct graph **out, struct graph *graph, void *parameters), make_graph(out, graph))
ONE(cuGraphExecUpdate, (struct graph *executable, struct graph *graph, void *node, int *result), (executable->kernels = graph->kernels, 0))
ONE(cuGraphExecUpdate_v2, (struct graph *executable, struct graph *graph, void *result), (executable->kernels = graph->kernels, 0))
ONE(cuGraphDestroy, (struct graph *graph), (free(graph), 0))
ONE(cuGraphExecDestroy, (struct graph *graph), (free(graph), 0))
TWO(cuGraphLaunch, _ptsz, (struct graph *graph, u64 s), launch_graph(at(s, own), graph))

/* Copies. An array is an address here. */
TWO(cuMemcpyHtoD_v2, _ptds, (u64 to, void *from, u64 size), copy(at(0, own), TO, 1, size))
TWO(cuMemcpyDtoH_v2, _ptds, (void *to, u64 from, u64 size), copy(at(0, own), FROM, 1, size))
TWO(cuMemcpyDtoD_v2, _ptds, (u64 to, u64 from, u64 size), copy(at(0, own), ON, 1, size))
TWO(cuMemcpy, _ptds, (u64 to, u64 from, u64 size), copy(at(0, own), EITHER, 1, size))
TWO(cuMemcpyPeer, _ptds, (u64 to, void *a, u64 from, void *b, u64 size), copy(at(0, own), ON, 1, size))
TWO(cuMemcpyHtoA_v2, _ptds, (u64 to, u64 offset, void *from, u64 size), copy(at(0, own), TO, 1, size))
TWO(cuMemcpyAtoH_v2, _ptds, (void *to, u64 from, u64 offset, u64 size), copy(at(0, own), FROM, 1, size))
TWO(cuMemcpyDtoA_v2, _ptds, (u64 to, u64 offset, u64 from, u64 size), copy(at(0, own), ON, 1, size))
TWO(cuMemcpyAtoD_v2, _ptds, (u64 to, u64 from, u64 offset, u64 size), copy(at(0, own), ON, 1, size))
TWO(cuMemcpyAtoA_v2, _ptds, (u64 to, u64 offset, u64 from, u64 other, u64 size), copy(at(0, own), ON, 1, size))
TWO(cuMemcpyHtoDAsync_v2, _ptsz, (u64 to, void *from, u64 size, u64 s), copy(at(s, own), TO, 1, size))
TWO(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, u64 from, u64 size, u64 s), copy(at(s, own), FROM, 1, size))
TWO(cuMemcpyDtoDAsync_v2, _ptsz, (u64 to, u64 from, u64 size, u64 s), copy(at(s, own), ON, 1, size))
TWO(cuMemcpyAsync, _ptsz, (u64 to, u64 from, u64 size, u64 s), copy(at(s, own), EITHER, 1, size))
TWO(cuMemcpyWithAttributesAsync, _ptsz, (u64 to, u64 from, u64 size, void *attributes, u64 s), copy(at(s, own), EITHER, 1, size))
TWO(cuMemcpyPeerAsync, _ptsz, (u64 to, void *a, u64 from, void *b, u64 size, u64 s), copy(at(s, own), ON, 1, size))
TWO(cuMemcpyHtoAAsync_v2, _ptsz, (u64 to, u64 offset, void *from, u64 size, u64 s), copy(at(s, own), TO, 1, size))
TWO(cuMemcpyAtoHAsync_v2, _ptsz, (void *to, u64 from, u64 offset, u64 size, u64 s), copy(at(s, own), FROM, 1, size))

/* Copies by structure. Kinds of memory: 1 host, 2 device, 3 array, 4 any. */
#define FIELD(type, c, offset) (*(type *)((char *)(c) + (offset)))
static int direction(int from, int to)
{
	if (from == 4 || to == 4 || (from == 1 && to == 1))
		return EITHER;
	return from == 1 ? TO : to == 1 ? FROM : ON;
}
static int plane(void *c, struct stream *stream)
{
	return copy(stream, direction(FIELD(int, c, 16), FIELD(int, c, 72)), 1, FIELD(u64, c, 112) * FIELD(u64, c, 120));
}
static u64 volume(void *c) { return FIELD(u64, c, 176) * FIELD(u64, c, 184) * FIELD(u64, c, 192); }
static int space(void *c, struct stream *stream) { return copy(stream, direction(FIELD(int, c, 32), FIELD(int, c, 120)), 1, volume(c)); }
TWO(cuMemcpy2D_v2, _ptds, (void *c), plane(c, at(0, own)))
TWO(cuMemcpy2DUnaligned_v2, _ptds, (void *c), plane(c, at(0, own)))
TWO(cuMemcpy2DAsync_v2, _ptsz, (void *c, u64 s), plane(c, at(s, own)))
TWO(cuMemcpy3D_v2, _ptds, (void *c), space(c, at(0, own)))
TWO(cuMemcpy3DAsync_v2, _ptsz, (void *c, u64 s), space(c, at(s, own)))
TWO(cuMemcpy3DPeer, _ptds, (void *c), copy(at(0, own), ON, 1, volume(c)))
TWO(cuMemcpy3DPeerAsync, _ptsz, (void *c, u64 s), copy(at(s, own), ON, 1, volume(c)))
static u64 total(u64 *sizes, u64 count) { return count ? *sizes + total(sizes + 1, count - 1) : 0; }
TWO(cuMemcpyBatchAsync, _ptsz, (u64 *to, u64 *from, u64 *sizes, u64 count, void *a, u64 *b, u64 n, u64 *failed, u64 s), copy(at(s, own), EITHER, count, total(sizes, count)))
TWO(cuMemcpyBatchAsync_v2, _ptsz, (u64 *to, u64 *from, u64 *sizes, u64 count, void *a, u64 *b, u64 n, u64 s), copy(at(s, own), EITHER, count, total(sizes, count)))

/* Fills. */
TWO(cuMemsetD8_v2, _ptds, (u64 to, int value, u64 count), fill(at(0, own), count))
TWO(cuMemsetD16_v2, _ptds, (u64 to, int value, u64 count), fill(at(0, own), count * 2))
TWO(cuMemsetD32_v2, _ptds, (u64 to, int value, u64 count), fill(at(0, own), count * 4))
TWO(cuMemsetD8Async, _ptsz, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count))
TWO(cuMemsetD16Async, _ptsz, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count * 2))
TWO(cuMemsetD32Async, _ptsz, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count * 4))
TWO(cuMemsetD2D8_v2, _ptds, (u64 to, u64 pitch, int value, u64 width, u64 height), fill(at(0, own), width * height))
TWO(cuMemsetD2D16_v2, _ptds, (u64 to, u64 pitch, int value, u64 width, u64 height), fill(at(0, own), width * height * 2))
TWO(cuMemsetD2D32_v2, _ptds, (u64 to, u64 pitch, int value, u64 width, u64 height), fill(at(0, own), width * height * 4))
TWO(cuMemsetD2D8Async, _ptsz, (u64 to, u64 pitch, int value, u64 width, u64 height, u64 s), fill(at(s, own), width * height))
TWO(cuMemsetD2D16Async, _ptsz, (u64 to, u64 pitch, int value, u64 width, u64 height, u64 s), fill(at(s, own), width * height * 2))
TWO(cuMemsetD2D32Async, _ptsz, (u64 to, u64 pitch, int value, u64 width, u64 height, u64 s), fill(at(s, own), width * height * 4))

/* Memory. */
ONE(cuMemAlloc_v2, (u64 *out, u64 size), allocate(out, size, DEVICE))
ONE(cuMemAllocPitch_v2, (u64 *out, u64 *pitch, u64 width, u64 height, unsigned element), (*pitch = (width + 511) & ~511ul, allocate(out, *pitch * height, DEVICE)))
ONE(cuMemAllocManaged, (u64 *out, u64 size, unsigned flags), allocate(out, size, MANAGED))
ONE(cuMemHostAlloc, (u64 *out, u64 size, unsigned flags), allocate(out, size, HOST))
ONE(cuMemAllocHost_v2, (u64 *out, u64 size), allocate(out, size, HOST))
ONE(cuMemCreate, (u64 *out, u64 size, void *what, u64 flags), allocate(out, size, PHYSICAL))
TWO(cuMemAllocAsync, _ptsz, (u64 *out, u64 size, u64 s), allocate(out, size, DEVICE))
TWO(cuMemAllocFromPoolAsync, _ptsz, (u64 *out, u64 size, void *pool, u64 s), allocate(out, size, DEVICE))
ONE(cuMemFree_v2, (u64 address), release(address))
TWO(cuMemFreeAsync, _ptsz, (u64 address, u64 s), release(address))
ONE(cuMemFreeHost, (u64 address), release(address))
ONE(cuMemRelease, (u64 handle), release(handle))

/* Arrays: the truth has a line `arrays BYTES` of those of plain formats, all together. */
struct array { u64 width, height; int format; unsigned channels; };
struct array_3d { u64 width, height, depth; int format; unsigned channels, flags; };
static u64 array_bytes;
static u64 at_least_one(u64 size) { return size ? size : 1; }
static int array(u64 w, u64 h, u64 d, int format, unsigned channels, unsigned flags, unsigned levels)
{
	static const int bits[0x21] = { [0x01] = 8, [0x02] = 16, [0x03] = 32, [0x08] = 8, [0x09] = 16, [0x0a] = 32, [0x10] = 16, [0x20] = 32 };
	u64 all = 0;

	if (format > 0x20 || flags & 0xc0)
		return 0;
	for (unsigned level = 0; level < levels && (!level || (w | h | (flags & 5 ? 0 : d)) >> level); level++)
		all += at_least_one(w >> level) * at_least_one(h >> level) * at_least_one(flags & 5 ? d : d >> level);
	__atomic_fetch_add(&array_bytes, all * channels * bits[format] / 8, __ATOMIC_RELAXED);
	return 0;
}
ONE(cuArrayCreate_v2, (u64 *out, struct array *a), array(a->width, a->height, 0, a->format, a->channels, 0, 1))
ONE(cuArray3DCreate_v2, (u64 *out, struct array_3d *a), array(a->width, a->height, a->depth, a->format, a->channels, a->flags, 1))
ONE(cuMipmappedArrayCreate, (u64 *out, struct array_3d *a, unsigned levels), array(a->width, a->height, a->depth, a->format, a->channels, a->flags, levels))
__attribute__((destructor)) static void tell_arrays(void)
{
	FILE *file = array_bytes && getenv("TRUTH") ? fopen(getenv("TRUTH"), "a") : NULL;

	if (!file)
		return;
	fprintf(file, "arrays %lu\n", array_bytes);
	fclose(file);
}

/* Streams and events. */
ONE(cuStreamCreate, (struct stream **out, unsigned flags), make_stream(out))
ONE(cuStreamCreateWithPriority, (struct stream **out, unsigned flags, int priority), make_stream(out))
ONE(cuStreamDestroy_v2, (struct stream *stream), drop_stream(stream))
TWO(cuStreamSynchronize, _ptsz, (u64 s), wait_for_stream(at(s, own)))
TWO(cuStreamQuery, _ptsz, (u64 s), query(at(s, own)))
TWO(cuStreamWaitEvent, _ptsz, (u64 s, struct event *event, unsigned flags), stream_waits(at(s, own), event))
ONE(cuEventCreate, (struct event **out, unsigned flags), make_event(out))
ONE(cuEventDestroy_v2, (struct event *event), (free(event), 0))
TWO(cuEventRecord, _ptsz, (struct event *event, u64 s), record(event, at(s, own)))
TWO(cuEventRecordWithFlags, _ptsz, (struct event *event, u64 s, unsigned flags), record(event, at(s, own)))
ONE(cuEventSynchronize, (struct event *event), sum(event->at, WAITS, 1))
ONE(cuEventQuery, (struct event *event), query(event->at))
