/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A stand-in for the runtime of HIP, with every function that gpumap counts. Compiled
 * with -O0 and -fcf-protection its functions begin as those of Debian's libamdhip64 do:
 * endbr64, push. At exit it tells the truth (standin.h); a device is a context, counted
 * from 1.
 */
#include "../standin.h"

typedef struct { unsigned x, y, z; } dim3;
struct config { dim3 grid, block; u64 shared; u64 stream; };

static struct context devices[4];
static __thread int device;

__attribute__((constructor)) static void begin(void)
{
	for (int i = 0; i < 4; i++) {
		devices[i] = (struct context){ .shown = i + 1, .device = i, .next = contexts };
		contexts = &devices[i];
	}
}

static struct context *now(void) { return &devices[device]; }

/* `own`: the default stream is the thread's. */
#define DEFINE(name, is_own, parameters, does) static struct function function_##name; \
	int name parameters { enum { own = is_own }; function_##name.called = 1; return does; } REGISTER(name, name);
#define ONE(name, parameters, does) DEFINE(name, 0, parameters, does)
#define TWO(name, parameters, does) DEFINE(name, 0, parameters, does) DEFINE(name##_spt, 1, parameters, does)

#define SHAPE void *f, dim3 grid, dim3 block, void **arguments, u64 shared, u64 s
#define NUMBERS void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, u64 s

/* Devices. */
ONE(hipSetDevice, (int ordinal), (device = ordinal, 0))
ONE(hipGetDevice, (int *out), (*out = device, 0))
ONE(hipDeviceGetUuid, (uint8_t *out, int ordinal), (memset(out, 0x30 + ordinal, 16), 0))
ONE(hipDeviceSynchronize, (void), wait_for(now()))

/* Launches. */
TWO(hipLaunchKernel, (SHAPE), launch(at(s, own), 1))
TWO(hipLaunchCooperativeKernel, (SHAPE), launch(at(s, own), 1))
ONE(hipExtLaunchKernel, (SHAPE, void *start, void *stop, int flags), launch(at(s, own), 1))
ONE(hipModuleLaunchKernel, (NUMBERS, void **p, void **x), launch(at(s, own), bx <= 1024))
ONE(hipModuleLaunchCooperativeKernel, (NUMBERS, void **p), launch(at(s, own), bx <= 1024))
ONE(hipExtModuleLaunchKernel, (NUMBERS, u64 size, void **p, void **x, void *start, void *stop, unsigned flags), launch(at(s, own), 1))
ONE(hipDrvLaunchKernelEx, (struct config *config, void *f, void **p, void **x), launch(at(config->stream, own), 1))
ONE(hipLaunchKernelExC, (struct config *config, void *f, void **p), launch(at(config->stream, own), 1))
TWO(hipLaunchHostFunc, (u64 s, void (*f)(void *), void *x), call_host(at(s, own), f, x))

/* Graphs. */
TWO(hipStreamBeginCapture, (u64 s, int mode), begin_capture(at(s, own), NULL))
TWO(hipStreamEndCapture, (u64 s, struct graph **out), end_capture(at(s, own), out))
ONE(hipGraphInstantiate, (struct graph **out, struct graph *graph, void *a, void *b, u64 c), make_graph(out, graph))
ONE(hipGraphInstantiateWithFlags, (struct graph **out, struct graph *graph, u64 flags), make_graph(out, graph))
ONE(hipGraphInstantiateWithParams, (struct graph **out, struct graph *graph, void *parameters), make_graph(out, graph))
ONE(hipGraphExecUpdate, (struct graph *executable, struct graph *graph, void *node, int *result), (executable->kernels = graph->kernels, 0))
ONE(hipGraphDestroy, (struct graph *graph), (free(graph), 0))
ONE(hipGraphExecDestroy, (struct graph *graph), (free(graph), 0))
TWO(hipGraphLaunch, (struct graph *graph, u64 s), launch_graph(at(s, own), graph))

/* Copies. Their kind says where they go. */
static int kind(int k) { return k == 1 ? TO : k == 2 ? FROM : k == 3 ? ON : EITHER; }
TWO(hipMemcpy, (u64 to, u64 from, u64 size, int k), copy(at(0, own), kind(k), 1, size))
TWO(hipMemcpyAsync, (u64 to, u64 from, u64 size, int k, u64 s), copy(at(s, own), kind(k), 1, size))
ONE(hipMemcpyWithStream, (u64 to, u64 from, u64 size, int k, u64 s), copy(at(s, own), kind(k), 1, size))
ONE(hipMemcpyHtoD, (u64 to, u64 from, u64 size), copy(at(0, own), TO, 1, size))
ONE(hipMemcpyDtoH, (u64 to, u64 from, u64 size), copy(at(0, own), FROM, 1, size))
ONE(hipMemcpyDtoD, (u64 to, u64 from, u64 size), copy(at(0, own), ON, 1, size))
ONE(hipMemcpyHtoDAsync, (u64 to, u64 from, u64 size, u64 s), copy(at(s, own), TO, 1, size))
ONE(hipMemcpyDtoHAsync, (u64 to, u64 from, u64 size, u64 s), copy(at(s, own), FROM, 1, size))
ONE(hipMemcpyDtoDAsync, (u64 to, u64 from, u64 size, u64 s), copy(at(s, own), ON, 1, size))
ONE(hipMemcpyPeer, (u64 to, int a, u64 from, int b, u64 size), copy(at(0, own), ON, 1, size))
ONE(hipMemcpyPeerAsync, (u64 to, int a, u64 from, int b, u64 size, u64 s), copy(at(s, own), ON, 1, size))
TWO(hipMemcpy2D, (u64 to, u64 a, u64 from, u64 b, u64 width, u64 height, int k), copy(at(0, own), kind(k), 1, width * height))
TWO(hipMemcpy2DAsync, (u64 to, u64 a, u64 from, u64 b, u64 width, u64 height, int k, u64 s), copy(at(s, own), kind(k), 1, width * height))

/* Fills. */
TWO(hipMemset, (u64 to, int value, u64 size), fill(at(0, own), size))
TWO(hipMemsetAsync, (u64 to, int value, u64 size, u64 s), fill(at(s, own), size))
ONE(hipMemsetD8, (u64 to, int value, u64 count), fill(at(0, own), count))
ONE(hipMemsetD16, (u64 to, int value, u64 count), fill(at(0, own), count * 2))
ONE(hipMemsetD32, (u64 to, int value, u64 count), fill(at(0, own), count * 4))
ONE(hipMemsetD8Async, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count))
ONE(hipMemsetD16Async, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count * 2))
ONE(hipMemsetD32Async, (u64 to, int value, u64 count, u64 s), fill(at(s, own), count * 4))

/* Memory. */
ONE(hipMalloc, (u64 *out, u64 size), allocate(out, size, DEVICE))
ONE(hipExtMallocWithFlags, (u64 *out, u64 size, unsigned flags), allocate(out, size, DEVICE))
ONE(hipMallocManaged, (u64 *out, u64 size, unsigned flags), allocate(out, size, MANAGED))
ONE(hipHostMalloc, (u64 *out, u64 size, unsigned flags), allocate(out, size, HOST))
ONE(hipHostAlloc, (u64 *out, u64 size, unsigned flags), allocate(out, size, HOST))
ONE(hipMallocHost, (u64 *out, u64 size), allocate(out, size, HOST))
ONE(hipMemAllocHost, (u64 *out, u64 size), allocate(out, size, HOST))
ONE(hipMemCreate, (u64 *out, u64 size, void *what, u64 flags), allocate(out, size, PHYSICAL))
ONE(hipMallocPitch, (u64 *out, u64 *pitch, u64 width, u64 height), (*pitch = (width + 255) & ~255ul, allocate(out, *pitch * height, DEVICE)))
ONE(hipMemAllocPitch, (u64 *out, u64 *pitch, u64 width, u64 height, unsigned element), (*pitch = (width + 255) & ~255ul, allocate(out, *pitch * height, DEVICE)))
ONE(hipMallocAsync, (u64 *out, u64 size, u64 s), allocate(out, size, DEVICE))
ONE(hipMallocFromPoolAsync, (u64 *out, u64 size, void *pool, u64 s), allocate(out, size, DEVICE))
ONE(hipFree, (u64 address), release(address))
ONE(hipFreeAsync, (u64 address, u64 s), release(address))
ONE(hipHostFree, (u64 address), release(address))
ONE(hipFreeHost, (u64 address), release(address))
ONE(hipMemRelease, (u64 handle), release(handle))

/* Streams and events. */
ONE(hipStreamCreate, (struct stream **out), make_stream(out))
ONE(hipStreamCreateWithFlags, (struct stream **out, unsigned flags), make_stream(out))
ONE(hipStreamCreateWithPriority, (struct stream **out, unsigned flags, int priority), make_stream(out))
ONE(hipStreamDestroy, (struct stream *stream), drop_stream(stream))
TWO(hipStreamSynchronize, (u64 s), sum(at(s, own), WAITS, 1))
TWO(hipStreamQuery, (u64 s), query(at(s, own)))
TWO(hipStreamWaitEvent, (u64 s, struct event *event, unsigned flags), stream_waits(at(s, own), event))
ONE(hipEventCreate, (struct event **out), make_event(out))
ONE(hipEventDestroy, (struct event *event), (free(event), 0))
TWO(hipEventRecord, (struct event *event, u64 s), record(event, at(s, own)))
ONE(hipEventRecordWithFlags, (struct event *event, u64 s, unsigned flags), record(event, at(s, own)))
ONE(hipEventSynchronize, (struct event *event), sum(event->at, WAITS, 1))
ONE(hipEventQuery, (struct event *event), query(event->at))
