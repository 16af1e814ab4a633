/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A client of the driver (client.h): together its verbs call every function of
 * driver.c. Compiled with -DOWN it uses the variants for threads' own default streams.
 * Sizes differ from call to call: an argument that is taken for another one shows.
 */
#include "../client.h"
#include <signal.h>
#include <sys/prctl.h>

#ifdef OWN
#define PTSZ(name) name##_ptsz
#define PTDS(name) name##_ptds
#else
#define PTSZ(name) name
#define PTDS(name) name
#endif
int cuDevicePrimaryCtxRetain(), cuDevicePrimaryCtxRelease_v2(), cuDevicePrimaryCtxReset_v2(), cuDeviceGetUuid(), cuDeviceGetUuid_v2();
int cuCtxCreate_v2(), cuCtxCreate_v3(), cuCtxCreate_v4(), cuCtxDestroy_v2(), cuCtxSetCurrent(), cuCtxPushCurrent_v2(), cuCtxPopCurrent_v2(), cuCtxGetCurrent(), cuCtxSynchronize(), cuCtxSynchronize_v2();
int PTSZ(cuLaunchKernel)(), PTSZ(cuLaunchCooperativeKernel)(), PTSZ(cuLaunchKernelEx)(), PTSZ(cuLaunchHostFunc)(), PTSZ(cuLaunchHostFunc_v2)();
int PTSZ(cuStreamBeginCapture_v2)(), PTSZ(cuStreamBeginCaptureToGraph)(), PTSZ(cuStreamEndCapture)(), cuGraphInstantiate_v2(), cuGraphInstantiateWithFlags(), PTSZ(cuGraphInstantiateWithParams)(), cuGraphExecUpdate(), cuGraphExecUpdate_v2(), PTSZ(cuGraphLaunch)();
int PTDS(cuMemcpyHtoD_v2)(), PTDS(cuMemcpyDtoH_v2)(), PTDS(cuMemcpyDtoD_v2)(), PTDS(cuMemcpy)(), PTDS(cuMemcpyPeer)(), PTDS(cuMemcpyHtoA_v2)(), PTDS(cuMemcpyAtoH_v2)(), PTDS(cuMemcpyDtoA_v2)(), PTDS(cuMemcpyAtoD_v2)(), PTDS(cuMemcpyAtoA_v2)();
int PTSZ(cuMemcpyHtoDAsync_v2)(), PTSZ(cuMemcpyDtoHAsync_v2)(), PTSZ(cuMemcpyDtoDAsync_v2)(), PTSZ(cuMemcpyAsync)(), PTSZ(cuMemcpyWithAttributesAsync)(), PTSZ(cuMemcpyPeerAsync)(), PTSZ(cuMemcpyHtoAAsync_v2)(), PTSZ(cuMemcpyAtoHAsync_v2)();
int PTDS(cuMemcpy2D_v2)(), PTDS(cuMemcpy2DUnaligned_v2)(), PTSZ(cuMemcpy2DAsync_v2)(), PTDS(cuMemcpy3D_v2)(), PTSZ(cuMemcpy3DAsync_v2)(), PTDS(cuMemcpy3DPeer)(), PTSZ(cuMemcpy3DPeerAsync)(), PTSZ(cuMemcpyBatchAsync)(), PTSZ(cuMemcpyBatchAsync_v2)();
int PTDS(cuMemsetD8_v2)(), PTDS(cuMemsetD16_v2)(), PTDS(cuMemsetD32_v2)(), PTSZ(cuMemsetD8Async)(), PTSZ(cuMemsetD16Async)(), PTSZ(cuMemsetD32Async)();
int PTDS(cuMemsetD2D8_v2)(), PTDS(cuMemsetD2D16_v2)(), PTDS(cuMemsetD2D32_v2)(), PTSZ(cuMemsetD2D8Async)(), PTSZ(cuMemsetD2D16Async)(), PTSZ(cuMemsetD2D32Async)();
int cuArrayCreate_v2(), cuArray3DCreate_v2(), cuMipmappedArrayCreate();
int cuMemAlloc_v2(), cuMemAllocPitch_v2(), cuMemAllocManaged(), cuMemHostAlloc(), cuMemAllocHost_v2(), cuMemCreate(), PTSZ(cuMemAllocAsync)(), PTSZ(cuMemAllocFromPoolAsync)(), cuMemFree_v2(), PTSZ(cuMemFreeAsync)(), cuMemFreeHost(), cuMemRelease();
int cuStreamCreate(), cuStreamCreateWithPriority(), cuStreamDestroy_v2(), PTSZ(cuStreamSynchronize)(), PTSZ(cuStreamQuery)(), PTSZ(cuStreamWaitEvent)(), cuEventCreate(), PTSZ(cuEventRecord)(), PTSZ(cuEventRecordWithFlags)(), cuEventSynchronize(), cuEventQuery(), cuEventDestroy_v2(), cuGraphDestroy(), cuGraphExecDestroy();

#define NUMBER(value) ((u64)(value))
#define LAUNCH(function, stream, ...) function((void *)8, 1, 1, 1, 32, 1, 1, 0, NUMBER(stream), __VA_ARGS__)

/* In three streams, by events: what they are given until the capture ends is captured. */
static void capture(u64 s, void **graph)
{
	u64 joins, joins_later;
	void *event, *later;

	cuStreamCreate(&joins, 0); cuStreamCreate(&joins_later, 0);
	cuEventCreate(&event, 0); cuEventCreate(&later, 0);
	PTSZ(cuStreamBeginCapture_v2)(s, 0);
	LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL);
	PTSZ(cuEventRecord)(event, s);
	PTSZ(cuStreamWaitEvent)(joins, event, 0);
	LAUNCH(PTSZ(cuLaunchKernel), joins, NULL, NULL); LAUNCH(PTSZ(cuLaunchCooperativeKernel), joins, NULL);
	PTSZ(cuEventRecordWithFlags)(later, joins, 0);
	PTSZ(cuStreamWaitEvent)(joins_later, later, 0);
	LAUNCH(PTSZ(cuLaunchKernel), joins_later, NULL, NULL);
	/* None of these runs now. */
	PTSZ(cuMemsetD8Async)(NUMBER(0), 1, NUMBER(77), joins); PTSZ(cuMemcpyAsync)(NUMBER(0), NUMBER(0), NUMBER(99), s);
	PTSZ(cuLaunchHostFunc)(s, on_host, NULL);
	PTSZ(cuStreamWaitEvent)(s, later, 0);
	PTSZ(cuStreamEndCapture)(s, graph);
	LAUNCH(PTSZ(cuLaunchKernel), joins, NULL, NULL);
	cuStreamDestroy_v2(joins); cuStreamDestroy_v2(joins_later);
}

static void graphs(u64 s, u64 n)
{
	void *graph, *executable, *other, *same;

	capture(s, &graph);
	cuGraphInstantiateWithFlags(&executable, graph, NUMBER(0));
	TIMES PTSZ(cuGraphLaunch)(executable, s);
	/* More kernels for the same graph, one of them from a graph that is launched into it. */
	PTSZ(cuStreamBeginCaptureToGraph)(s, graph, NULL, NULL, NUMBER(0), 0);
	LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL);
	PTSZ(cuGraphLaunch)(executable, s);
	PTSZ(cuStreamEndCapture)(s, &same);
	cuGraphInstantiate_v2(&other, graph, NULL, NULL, NUMBER(0)); PTSZ(cuGraphLaunch)(other, s);
	PTSZ(cuGraphInstantiateWithParams)(&other, graph, NULL); PTSZ(cuGraphLaunch)(other, s);
	cuGraphExecUpdate(executable, graph, NULL, NULL); PTSZ(cuGraphLaunch)(executable, s);
	capture(s, &graph);
	cuGraphExecUpdate_v2(executable, graph, NULL); PTSZ(cuGraphLaunch)(executable, s);
	cuGraphDestroy(graph); cuGraphExecDestroy(executable);
	/* A capture that its stream does not survive. */
	u64 gone, again;
	cuStreamCreate(&gone, 0); PTSZ(cuStreamBeginCapture_v2)(gone, 0); LAUNCH(PTSZ(cuLaunchKernel), gone, NULL, NULL); cuStreamDestroy_v2(gone);
	cuStreamCreate(&again, 0); LAUNCH(PTSZ(cuLaunchKernel), again, NULL, NULL); cuStreamDestroy_v2(again);
}

/* Graphs of one kernel, all of them kept, and then launched one after the other. */
static void many_graphs(u64 s, u64 n)
{
	void *graph, **made = calloc(n, sizeof(*made));

	TIMES {
		PTSZ(cuStreamBeginCapture_v2)(s, 0); LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL); PTSZ(cuStreamEndCapture)(s, &graph);
		cuGraphInstantiateWithFlags(&made[i], graph, NUMBER(0));
	}
	TIMES PTSZ(cuGraphLaunch)(made[i], s);
}

/* Events that are all recorded, and then waited for one after the other. */
static void many_events(u64 s, u64 n)
{
	void **made = calloc(n, sizeof(*made));

	TIMES { cuEventCreate(&made[i], 0); PTSZ(cuEventRecord)(made[i], s); }
	TIMES cuEventSynchronize(made[i]);
}

/* The same of events and graphs that are destroyed again. */
static void brief(u64 s, u64 n)
{
	void *event, *graph, *made;

	TIMES {
		cuEventCreate(&event, 0); PTSZ(cuEventRecord)(event, s); cuEventSynchronize(event); cuEventDestroy_v2(event);
		PTSZ(cuStreamBeginCapture_v2)(s, 0); LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL); PTSZ(cuStreamEndCapture)(s, &graph);
		cuGraphInstantiateWithFlags(&made, graph, NUMBER(0)); cuGraphDestroy(graph);
		PTSZ(cuGraphLaunch)(made, s); cuGraphExecDestroy(made);
	}
}

/* Threads that make one call each and stay. */
static void *one_launch(void *x) { LAUNCH(PTSZ(cuLaunchKernel), 0, NULL, NULL); (*(volatile u64 *)x)++; pause(); return NULL; }
static void many_threads(u64 n)
{
	static u64 done;
	pthread_attr_t small;
	pthread_t made;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	TIMES {
		pthread_create(&made, &small, one_launch, &done);
		while (*(volatile u64 *)&done <= i)
			usleep(20);
	}
}

/* Streams that are all captured at the same time. */
static void many_captures(u64 n)
{
	u64 made;

	TIMES { cuStreamCreate(&made, 0); PTSZ(cuStreamBeginCapture_v2)(made, 0); }
}

/* Processes that make one call each. */
static void crowd(u64 n)
{
	TIMES {
		pid_t child = fork();

		if (!child) { LAUNCH(PTSZ(cuLaunchKernel), 0, NULL, NULL); _exit(0); }
		waitpid(child, NULL, 0);
	}
}

/* Processes that make one call each and stay, as long as this one does. */
static void herd(u64 n)
{
	int made[2];
	char byte;

	if (pipe(made))
		exit(2);
	TIMES {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			LAUNCH(PTSZ(cuLaunchKernel), 0, NULL, NULL);
			if (write(made[1], "x", 1) == 1)
				pause();
			_exit(0);
		}
		if (read(made[0], &byte, 1) != 1)
			exit(2);
	}
}

static void copies(u64 s, u64 n)
{
	u64 a = 0, z = 0;

	PTDS(cuMemcpyHtoD_v2)(a, NULL, n); PTDS(cuMemcpyDtoH_v2)(NULL, a, 2 * n); PTDS(cuMemcpyDtoD_v2)(a, a, 3 * n); PTDS(cuMemcpy)(a, a, 4 * n);
	PTSZ(cuMemcpyHtoDAsync_v2)(a, NULL, 5 * n, s); PTSZ(cuMemcpyDtoHAsync_v2)(NULL, a, 6 * n, s);
	PTSZ(cuMemcpyPeerAsync)(a, NULL, a, NULL, 7 * n, s); PTSZ(cuMemcpyAsync)(a, a, 8 * n, s);
	PTDS(cuMemcpyPeer)(a, NULL, a, NULL, 16 * n); PTSZ(cuMemcpyDtoDAsync_v2)(a, a, 32 * n, s); PTSZ(cuMemcpyWithAttributesAsync)(a, a, 64 * n, NULL, s);
	PTDS(cuMemcpyHtoA_v2)(a, z, NULL, 128 * n); PTDS(cuMemcpyAtoH_v2)(NULL, a, z, 256 * n); PTDS(cuMemcpyDtoA_v2)(a, z, a, 512 * n);
	PTDS(cuMemcpyAtoD_v2)(a, a, z, 1024 * n); PTDS(cuMemcpyAtoA_v2)(a, z, a, z, 2048 * n);
	PTSZ(cuMemcpyHtoAAsync_v2)(a, z, NULL, 4096 * n, s); PTSZ(cuMemcpyAtoHAsync_v2)(NULL, a, z, 8192 * n, s);
}

/* By structure: from each kind of memory to each. */
static void planes(u64 s, u64 n)
{
	for (int from = 1; from <= 4; from++)
		for (int to = 1; to <= 4; to++, n++) {
			uint8_t bytes[200] = {0};

			*(int *)(bytes + 16) = from; *(int *)(bytes + 72) = to; *(u64 *)(bytes + 112) = n; *(u64 *)(bytes + 120) = 3;
			PTDS(cuMemcpy2D_v2)(bytes); PTSZ(cuMemcpy2DAsync_v2)(bytes, s); *(u64 *)(bytes + 120) = 4; PTDS(cuMemcpy2DUnaligned_v2)(bytes);
			memset(bytes, 0, sizeof(bytes));
			*(int *)(bytes + 32) = from; *(int *)(bytes + 120) = to; *(u64 *)(bytes + 176) = n; *(u64 *)(bytes + 184) = 3; *(u64 *)(bytes + 192) = 5;
			PTDS(cuMemcpy3D_v2)(bytes); PTSZ(cuMemcpy3DAsync_v2)(bytes, s);
			*(u64 *)(bytes + 192) = 7; PTDS(cuMemcpy3DPeer)(bytes); *(u64 *)(bytes + 192) = 9; PTSZ(cuMemcpy3DPeerAsync)(bytes, s);
		}
}

static void batches(u64 s, u64 n)
{
	u64 sizes[40];

	for (u64 i = 0; i < 40; i++)
		sizes[i] = n * i;
	for (u64 count = 15; count < 40; count += count % 3 + 1)
		PTSZ(cuMemcpyBatchAsync)(NULL, NULL, sizes, count, NULL, NULL, NUMBER(0), NULL, s);
	PTSZ(cuMemcpyBatchAsync_v2)(NULL, NULL, sizes, NUMBER(5), NULL, NULL, NUMBER(0), s);
}

static void fills(u64 s, u64 n)
{
	u64 a = 0, pitch = 0;

	PTDS(cuMemsetD8_v2)(a, 1, n); PTDS(cuMemsetD16_v2)(a, 1, n); PTDS(cuMemsetD32_v2)(a, 1, 3 * n);
	PTSZ(cuMemsetD8Async)(a, 1, 5 * n, s); PTSZ(cuMemsetD16Async)(a, 1, 7 * n, s); PTSZ(cuMemsetD32Async)(a, 1, n, s);
	PTDS(cuMemsetD2D8_v2)(a, pitch, 1, n, NUMBER(2)); PTDS(cuMemsetD2D16_v2)(a, pitch, 1, n, NUMBER(3)); PTDS(cuMemsetD2D32_v2)(a, pitch, 1, n, NUMBER(5));
	PTSZ(cuMemsetD2D8Async)(a, pitch, 1, n, NUMBER(7), s); PTSZ(cuMemsetD2D16Async)(a, pitch, 1, n, NUMBER(11), s); PTSZ(cuMemsetD2D32Async)(a, pitch, 1, n, NUMBER(3), s);
}

static void memory(u64 s, u64 n)
{
	u64 a, pitch;

	cuMemAlloc_v2(&a, n); cuMemAlloc_v2(&a, n); cuMemFree_v2(a); cuMemAlloc_v2(&a, 1ul << 50); cuMemFree_v2(NUMBER(0x1234)); cuMemFree_v2(NUMBER(0));
	cuMemAllocPitch_v2(&a, &pitch, n, NUMBER(3), 4); cuMemAllocManaged(&a, n, 1); cuMemHostAlloc(&a, n, 0); cuMemFreeHost(a);
	cuMemHostAlloc(&a, n, 0); cuMemAllocHost_v2(&a, 2 * n); cuMemCreate(&a, n, NULL, NUMBER(0)); cuMemRelease(a); cuMemCreate(&a, n, NULL, NUMBER(0));
	PTSZ(cuMemAllocAsync)(&a, n, s); PTSZ(cuMemFreeAsync)(a, s); PTSZ(cuMemAllocFromPoolAsync)(&a, 3 * n, NULL, s);
}

/* One of each plain format and shape; three of formats of which a channel has no size. */
static void arrays(u64 n)
{
	static const unsigned formats[] = { 0x01, 0x02, 0x03, 0x08, 0x09, 0x0a, 0x10, 0x20 }, flags[] = { 0, 1, 2, 4, 0x40, 0x80 };
	struct { u64 width, height; unsigned format, channels; } plane;
	struct { u64 width, height, depth; unsigned format, channels, flags; } space;
	u64 a;

	for (int f = 0; f < 8; f++)
		for (unsigned channels = 1; channels <= 4; channels *= 2) {
			plane.width = n + f; plane.height = f % 3 * n; plane.format = formats[f]; plane.channels = channels;
			cuArrayCreate_v2(&a, &plane);
			for (int kind = 0; kind < 6; kind++) {
				space.width = n + kind; space.height = (f + kind) % 3 * n; space.depth = flags[kind] & 4 ? 6 : f % 4 * kind;
				space.format = formats[f]; space.channels = channels; space.flags = flags[kind];
				cuArray3DCreate_v2(&a, &space);
				for (unsigned levels = 1; levels < 40; levels = 3 * levels + 1)
					cuMipmappedArrayCreate(&a, &space, levels);
			}
		}
	plane.format = 0xb0; cuArrayCreate_v2(&a, &plane);
	space.format = 0x91; cuArray3DCreate_v2(&a, &space); cuMipmappedArrayCreate(&a, &space, 2);
}

static void waits(u64 s, u64 n)
{
	void *event, *context;

	cuCtxGetCurrent(&context);
	TIMES {
		PTSZ(cuStreamSynchronize)(s); PTSZ(cuStreamQuery)(s); cuCtxSynchronize(); cuCtxSynchronize_v2(context); cuCtxSynchronize_v2(NULL);
		cuEventCreate(&event, 0); PTSZ(cuEventRecord)(event, s); cuEventQuery(event); cuEventSynchronize(event);
		PTSZ(cuEventRecordWithFlags)(event, NUMBER(0), 0); cuEventSynchronize(event); PTSZ(cuStreamWaitEvent)(s, event, 0);
		cuEventDestroy_v2(event);
	}
}

/* A context that ends with what it has; the next one may have its address, on another
 * device. */
static void one_context(u64 n, int device, int way)
{
	void *context, *popped;
	u64 stream, a;

	if (way == 0) cuCtxCreate_v2(&context, 0, device);
	else if (way == 1) cuCtxCreate_v3(&context, NULL, 0, 0, device);
	else cuCtxCreate_v4(&context, NULL, 0, device);
	cuMemAlloc_v2(&a, n); cuMemAlloc_v2(&a, 2 * n); cuMemFree_v2(a); cuMemAllocManaged(&a, n, 1);
	cuStreamCreateWithPriority(&stream, 0, 0);
	LAUNCH(PTSZ(cuLaunchKernel), stream, NULL, NULL); LAUNCH(PTSZ(cuLaunchKernel), 0, NULL, NULL); LAUNCH(PTSZ(cuLaunchKernel), 2, NULL, NULL);
	cuCtxPopCurrent_v2(&popped); LAUNCH(PTSZ(cuLaunchKernel), 0, NULL, NULL); cuCtxPushCurrent_v2(context);
	PTDS(cuMemcpyHtoD_v2)(a, NULL, n); cuCtxSynchronize(); cuCtxSynchronize_v2(context); cuStreamDestroy_v2(stream);
	cuCtxDestroy_v2(context);
}

static void obey(const char *verb, u64 n, u64 *stream)
{
	u64 a = 0, s = *stream;
	void *context;
	uint8_t bytes[16];
	u64 config[8] = {0};

	if (IS("device")) { cuDevicePrimaryCtxRetain(&context, (int)n); cuCtxSetCurrent(context); }
	else if (IS("uuid")) { cuDeviceGetUuid(bytes, (int)n); cuDeviceGetUuid_v2(bytes, (int)n); cuDeviceGetUuid(bytes, (int)n); }
	else if (IS("push")) { cuDevicePrimaryCtxRetain(&context, (int)n); cuCtxPushCurrent_v2(context); }
	else if (IS("pop")) cuCtxPopCurrent_v2(&context);
	else if (IS("current")) cuCtxGetCurrent(&context);
	else if (IS("nothing")) cuCtxSetCurrent(NULL);
	else if (IS("contexts")) TIMES { one_context(100 + i, i % 4, i % 3); one_context(1000 + i, i % 4, (i + 1) % 3); }
	else if (IS("pile")) TIMES { cuCtxCreate_v2(&context, 0, 0); LAUNCH(PTSZ(cuLaunchKernel), 0, NULL, NULL); cuMemAlloc_v2(&a, 16); cuCtxPopCurrent_v2(&context); }
	else if (IS("release")) cuDevicePrimaryCtxRelease_v2((int)n);
	else if (IS("reset")) cuDevicePrimaryCtxReset_v2((int)n);
	else if (IS("stream")) cuStreamCreate(stream, 0);
	else if (IS("streams")) TIMES { cuStreamCreate(&a, 0); LAUNCH(PTSZ(cuLaunchKernel), a, NULL, NULL); }
	else if (IS("short")) TIMES { cuStreamCreateWithPriority(&a, 0, 0); LAUNCH(PTSZ(cuLaunchKernel), a, NULL, NULL); cuStreamDestroy_v2(a); }
	else if (IS("launch")) TIMES LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL);
	else if (IS("legacy")) TIMES LAUNCH(PTSZ(cuLaunchKernel), 1, NULL, NULL);
	else if (IS("own")) TIMES LAUNCH(PTSZ(cuLaunchKernel), 2, NULL, NULL);
	else if (IS("together")) TIMES LAUNCH(PTSZ(cuLaunchCooperativeKernel), s, NULL);
	else if (IS("config")) TIMES { config[4] = s; PTSZ(cuLaunchKernelEx)(config, NULL, NULL, NULL); }
	else if (IS("bad")) TIMES PTSZ(cuLaunchKernel)((void *)8, 0, 0, 0, 1, 1, 1, 0, s, NULL, NULL);
	else if (IS("function")) TIMES { PTSZ(cuLaunchHostFunc)(s, on_host, NULL); PTSZ(cuLaunchHostFunc_v2)(s, on_host, NULL, 0); }
	else if (IS("graph")) graphs(s, n);
	else if (IS("many-graphs")) many_graphs(s, n);
	else if (IS("many-events")) many_events(s, n);
	else if (IS("crowd")) crowd(n);
	else if (IS("herd")) herd(n);
	else if (IS("brief")) brief(s, n);
	else if (IS("many-threads")) many_threads(n);
	else if (IS("many-captures")) many_captures(n);
	else if (IS("sync")) TIMES PTSZ(cuStreamSynchronize)(s);
	else if (IS("names")) TIMES cuDeviceGetUuid(bytes, (int)i);
	else if (IS("copies")) copies(s, n);
	else if (IS("planes")) planes(s, n);
	else if (IS("batch")) batches(s, n);
	else if (IS("fills")) fills(s, n);
	else if (IS("memory")) memory(s, n);
	else if (IS("arrays")) arrays(n);
	else if (IS("keep")) TIMES cuMemAlloc_v2(&a, 16);
	else if (IS("churn")) TIMES { cuMemAlloc_v2(&a, 64 + i); cuMemFree_v2(a); }
	else if (IS("waits")) waits(s, n);
	else if (IS("exec")) { char *words[] = { "client", "device:0", "launch:7", NULL }; execv("/proc/self/exe", words); }
	else { fprintf(stderr, "client: no verb %s\n", verb); exit(2); }
}
