/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A client of HIP's runtime (client.h): together its verbs call every function of
 * driver.c. Compiled with -DOWN it uses the variants for threads' own default streams.
 */
#include "../client.h"

typedef struct { unsigned x, y, z; } dim3;
struct config { dim3 grid, block; u64 shared; u64 stream; };
#define SHAPE void *, dim3, dim3, void **, u64, u64
#define NUMBERS void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, u64

#ifdef OWN
#define SPT(name) name##_spt
#else
#define SPT(name) name
#endif
int hipEventDestroy(void *), hipGraphDestroy(void *), hipGraphExecDestroy(void *);
int hipSetDevice(int), hipGetDevice(int *), hipDeviceGetUuid(uint8_t *, int), hipDeviceSynchronize(void);
int SPT(hipLaunchKernel)(SHAPE), SPT(hipLaunchCooperativeKernel)(SHAPE), hipExtLaunchKernel(SHAPE, void *, void *, int), hipModuleLaunchKernel(NUMBERS, void **, void **), hipModuleLaunchCooperativeKernel(NUMBERS, void **);
int hipExtModuleLaunchKernel(NUMBERS, u64, void **, void **, void *, void *, unsigned), hipDrvLaunchKernelEx(struct config *, void *, void **, void **), hipLaunchKernelExC(struct config *, void *, void **), SPT(hipLaunchHostFunc)(u64, void (*)(void *), void *);
int SPT(hipStreamBeginCapture)(u64, int), SPT(hipStreamEndCapture)(u64, void **), hipGraphInstantiate(void **, void *, void *, void *, u64), hipGraphInstantiateWithFlags(void **, void *, u64), hipGraphInstantiateWithParams(void **, void *, void *), hipGraphExecUpdate(void *, void *, void *, int *), SPT(hipGraphLaunch)(void *, u64);
int SPT(hipMemcpy)(u64, u64, u64, int), SPT(hipMemcpyAsync)(u64, u64, u64, int, u64), hipMemcpyWithStream(u64, u64, u64, int, u64), hipMemcpyHtoD(u64, u64, u64), hipMemcpyDtoH(u64, u64, u64), hipMemcpyDtoD(u64, u64, u64);
int hipMemcpyHtoDAsync(u64, u64, u64, u64), hipMemcpyDtoHAsync(u64, u64, u64, u64), hipMemcpyDtoDAsync(u64, u64, u64, u64), hipMemcpyPeer(u64, int, u64, int, u64), hipMemcpyPeerAsync(u64, int, u64, int, u64, u64);
int SPT(hipMemcpy2D)(u64, u64, u64, u64, u64, u64, int), SPT(hipMemcpy2DAsync)(u64, u64, u64, u64, u64, u64, int, u64);
int SPT(hipMemset)(u64, int, u64), SPT(hipMemsetAsync)(u64, int, u64, u64), hipMemsetD8(u64, int, u64), hipMemsetD16(u64, int, u64), hipMemsetD32(u64, int, u64), hipMemsetD8Async(u64, int, u64, u64), hipMemsetD16Async(u64, int, u64, u64), hipMemsetD32Async(u64, int, u64, u64);
int hipMalloc(u64 *, u64), hipExtMallocWithFlags(u64 *, u64, unsigned), hipMallocManaged(u64 *, u64, unsigned), hipHostMalloc(u64 *, u64, unsigned), hipHostAlloc(u64 *, u64, unsigned), hipMallocHost(u64 *, u64), hipMemAllocHost(u64 *, u64), hipMemCreate(u64 *, u64, void *, u64);
int hipMallocPitch(u64 *, u64 *, u64, u64), hipMemAllocPitch(u64 *, u64 *, u64, u64, unsigned), hipMallocAsync(u64 *, u64, u64), hipMallocFromPoolAsync(u64 *, u64, void *, u64), hipFree(u64), hipFreeAsync(u64, u64), hipHostFree(u64), hipFreeHost(u64), hipMemRelease(u64);
int hipStreamCreate(u64 *), hipStreamCreateWithFlags(u64 *, unsigned), hipStreamCreateWithPriority(u64 *, unsigned, int), hipStreamDestroy(u64), SPT(hipStreamSynchronize)(u64), SPT(hipStreamQuery)(u64), SPT(hipStreamWaitEvent)(u64, void *, unsigned);
int hipEventCreate(void **), SPT(hipEventRecord)(void *, u64), hipEventRecordWithFlags(void *, u64, unsigned), hipEventSynchronize(void *), hipEventQuery(void *);

static const dim3 one = { 1, 1, 1 };

/* In two streams, by an event. */
static void graphs(u64 s, u64 n)
{
	void *graph, *executable, *event;
	u64 joins;

	hipStreamCreateWithPriority(&joins, 0, 0);
	hipEventCreate(&event);
	SPT(hipStreamBeginCapture)(s, 0);
	SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, s);
	SPT(hipEventRecord)(event, s);
	SPT(hipStreamWaitEvent)(joins, event, 0);
	SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, joins); SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, joins);
	SPT(hipMemsetAsync)(0, 1, 77, joins);
	SPT(hipStreamEndCapture)(s, &graph);
	hipStreamDestroy(joins);
	hipGraphInstantiate(&executable, graph, NULL, NULL, 0);
	TIMES SPT(hipGraphLaunch)(executable, s);
	SPT(hipStreamBeginCapture)(s, 0); SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, s); SPT(hipStreamEndCapture)(s, &graph);
	hipGraphExecUpdate(executable, graph, NULL, NULL); SPT(hipGraphLaunch)(executable, s);
	hipGraphInstantiateWithFlags(&executable, graph, 0); SPT(hipGraphLaunch)(executable, s);
	hipGraphInstantiateWithParams(&executable, graph, NULL); SPT(hipGraphLaunch)(executable, s);
	hipGraphDestroy(graph); hipGraphExecDestroy(executable);
}

/* Of each kind, and of one that is none. */
static void copies(u64 s, u64 n)
{
	for (int kind = 0; kind < 6; kind++) {
		SPT(hipMemcpy)(0, 0, n << kind, kind); SPT(hipMemcpyAsync)(0, 0, n << kind, kind, s); hipMemcpyWithStream(0, 0, n, kind, s);
		SPT(hipMemcpy2D)(0, 0, 0, 0, n + kind, 3, kind); SPT(hipMemcpy2DAsync)(0, 0, 0, 0, n + kind, 5, kind, s);
	}
	hipMemcpyHtoD(0, 0, 3 * n); hipMemcpyDtoH(0, 0, 5 * n); hipMemcpyDtoD(0, 0, 7 * n);
	hipMemcpyHtoDAsync(0, 0, 11 * n, s); hipMemcpyDtoHAsync(0, 0, 13 * n, s); hipMemcpyDtoDAsync(0, 0, 17 * n, s);
	hipMemcpyPeer(0, 0, 0, 1, 19 * n); hipMemcpyPeerAsync(0, 0, 0, 1, 23 * n, s);
}

static void fills(u64 s, u64 n)
{
	SPT(hipMemset)(0, 1, n); SPT(hipMemsetAsync)(0, 1, 2 * n, s);
	hipMemsetD8(0, 1, 3 * n); hipMemsetD16(0, 1, 5 * n); hipMemsetD32(0, 1, 7 * n);
	hipMemsetD8Async(0, 1, 11 * n, s); hipMemsetD16Async(0, 1, 13 * n, s); hipMemsetD32Async(0, 1, 17 * n, s);
}

static void memory(u64 s, u64 n)
{
	u64 a, pitch;

	hipMalloc(&a, n); hipMalloc(&a, n); hipFree(a); hipMalloc(&a, 1ul << 50); hipFree(0x1234); hipMallocManaged(&a, n, 1);
	hipHostMalloc(&a, n, 0); hipHostFree(a); hipHostMalloc(&a, n, 0); hipMallocAsync(&a, n, s); hipFreeAsync(a, s);
	hipExtMallocWithFlags(&a, 3 * n, 0); hipHostAlloc(&a, 5 * n, 0); hipMallocHost(&a, 7 * n); hipFreeHost(a); hipMemAllocHost(&a, 11 * n);
	hipMemCreate(&a, n, NULL, 0); hipMemRelease(a); hipMemCreate(&a, 2 * n, NULL, 0);
	hipMallocPitch(&a, &pitch, n, 3); hipMemAllocPitch(&a, &pitch, n, 5, 4); hipMallocFromPoolAsync(&a, 13 * n, NULL, s);
}

static void waits(u64 s, u64 n)
{
	void *event;

	TIMES {
		SPT(hipStreamSynchronize)(s); SPT(hipStreamQuery)(s); hipDeviceSynchronize();
		hipEventCreate(&event); SPT(hipEventRecord)(event, s); hipEventQuery(event); hipEventSynchronize(event);
		hipEventRecordWithFlags(event, 0, 0); hipEventSynchronize(event); hipEventDestroy(event);
	}
}

static void obey(const char *verb, u64 n, u64 *stream)
{
	u64 s = *stream, other;
	struct config config = { one, one, 0, s };
	uint8_t bytes[16];
	int device;

	if (IS("device")) hipSetDevice((int)n);
	else if (IS("current")) hipGetDevice(&device);
	else if (IS("uuid")) hipDeviceGetUuid(bytes, (int)n);
	else if (IS("stream")) hipStreamCreate(stream);
	else if (IS("short")) TIMES { hipStreamCreateWithFlags(&other, 0); SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, other); hipStreamDestroy(other); }
	else if (IS("launch")) TIMES SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, s);
	else if (IS("legacy")) TIMES SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, 1);
	else if (IS("own")) TIMES SPT(hipLaunchKernel)(NULL, one, one, NULL, 0, 2);
	else if (IS("together")) TIMES SPT(hipLaunchCooperativeKernel)(NULL, one, one, NULL, 0, s);
	else if (IS("further")) TIMES hipExtLaunchKernel(NULL, one, one, NULL, 0, s, NULL, NULL, 0);
	else if (IS("module")) TIMES {
		hipModuleLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL); hipModuleLaunchCooperativeKernel(NULL, 1, 1, 1, 32, 1, 1, 0, s, NULL);
		hipExtModuleLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, s, 0, NULL, NULL, NULL, NULL, 0);
	}
	else if (IS("bad")) TIMES hipModuleLaunchKernel(NULL, 1, 1, 1, 2048, 1, 1, 0, s, NULL, NULL);
	else if (IS("config")) TIMES { hipDrvLaunchKernelEx(&config, NULL, NULL, NULL); hipLaunchKernelExC(&config, NULL, NULL); }
	else if (IS("function")) TIMES SPT(hipLaunchHostFunc)(s, on_host, NULL);
	else if (IS("graph")) graphs(s, n);
	else if (IS("copies")) copies(s, n);
	else if (IS("fills")) fills(s, n);
	else if (IS("memory")) memory(s, n);
	else if (IS("waits")) waits(s, n);
	else { fprintf(stderr, "client: no verb %s\n", verb); exit(2); }
}
