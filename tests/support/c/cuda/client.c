/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * client [-w] [-t THREADS] VERB[:NUMBER]...: calls the driver as it is told, in
 * each thread. -w waits for a line on stdin first. Compiled with -DOWN it uses
 * the variants for threads' own default streams.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;
#ifdef OWN
#define PTSZ(name) name##_ptsz
#define PTDS(name) name##_ptds
#else
#define PTSZ(name) name
#define PTDS(name) name
#endif
int cuDevicePrimaryCtxRetain(), cuDeviceGetUuid(), cuDeviceGetUuid_v2(), cuCtxSetCurrent(), cuCtxPushCurrent_v2(), cuCtxPopCurrent_v2(), cuCtxGetCurrent(), cuCtxSynchronize(), cuStreamCreate();
int PTSZ(cuLaunchKernel)(), PTSZ(cuLaunchCooperativeKernel)(), PTSZ(cuLaunchKernelEx)(), PTSZ(cuLaunchHostFunc)(), PTSZ(cuStreamBeginCapture_v2)(), PTSZ(cuStreamEndCapture)(), cuGraphInstantiateWithFlags(), PTSZ(cuGraphLaunch)();
int PTDS(cuMemcpyHtoD_v2)(), PTDS(cuMemcpyDtoH_v2)(), PTDS(cuMemcpyDtoD_v2)(), PTDS(cuMemcpy)(), PTSZ(cuMemcpyHtoDAsync_v2)(), PTSZ(cuMemcpyDtoHAsync_v2)(), PTSZ(cuMemcpyPeerAsync)(), PTSZ(cuMemcpyAsync)(), PTSZ(cuMemcpy2DAsync_v2)(), PTSZ(cuMemcpy3DAsync_v2)(), PTSZ(cuMemcpyBatchAsync)();
int PTDS(cuMemsetD8_v2)(), PTDS(cuMemsetD16_v2)(), PTSZ(cuMemsetD32Async)(), PTSZ(cuMemsetD2D32Async)();
int cuMemAlloc_v2(), cuMemAllocPitch_v2(), cuMemAllocManaged(), cuMemHostAlloc(), cuMemCreate(), PTSZ(cuMemAllocAsync)(), cuMemFree_v2(), PTSZ(cuMemFreeAsync)(), cuMemFreeHost(), cuMemRelease();
int PTSZ(cuStreamSynchronize)(), PTSZ(cuStreamQuery)(), cuEventCreate(), PTSZ(cuEventRecord)(), cuEventSynchronize(), cuEventQuery();

static char **verbs;
static int verb_count;
static void on_host(void *x) { (void)x; }

#define NUMBER(value) ((u64)(value))
#define LAUNCH(function, stream, ...) function((void *)8, 1, 1, 1, 32, 1, 1, 0, NUMBER(stream), __VA_ARGS__)

static void obey(const char *verb, u64 n, u64 *stream)
{
	u64 a = 0, s = *stream, sizes[16];
	void *context, *graph, *event;
	uint8_t bytes[200] = {0};
	u64 config[8] = {0};
#define IS(word) (!strncmp(verb, word, strcspn(verb, ":")) && strlen(word) == strcspn(verb, ":"))
#define TIMES for (u64 i = 0; i < n; i++)
	if (IS("device")) { cuDevicePrimaryCtxRetain(&context, (int)n); cuCtxSetCurrent(context); }
	else if (IS("uuid")) { cuDeviceGetUuid(bytes, (int)n); cuDeviceGetUuid_v2(bytes, (int)n); cuDeviceGetUuid(bytes, (int)n); }
	else if (IS("push")) { cuDevicePrimaryCtxRetain(&context, (int)n); cuCtxPushCurrent_v2(context); }
	else if (IS("pop")) cuCtxPopCurrent_v2(&context);
	else if (IS("current")) cuCtxGetCurrent(&context);
	else if (IS("stream")) cuStreamCreate(stream, 0);
	else if (IS("streams")) TIMES { cuStreamCreate(&a, 0); LAUNCH(PTSZ(cuLaunchKernel), a, NULL, NULL); }
	else if (IS("launch")) TIMES LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL);
	else if (IS("legacy")) TIMES LAUNCH(PTSZ(cuLaunchKernel), 1, NULL, NULL);
	else if (IS("own")) TIMES LAUNCH(PTSZ(cuLaunchKernel), 2, NULL, NULL);
	else if (IS("together")) TIMES LAUNCH(PTSZ(cuLaunchCooperativeKernel), s, NULL);
	else if (IS("config")) TIMES { config[4] = s; PTSZ(cuLaunchKernelEx)(config, NULL, NULL, NULL); }
	else if (IS("bad")) TIMES PTSZ(cuLaunchKernel)((void *)8, 0, 0, 0, 1, 1, 1, 0, s, NULL, NULL);
	else if (IS("function")) TIMES PTSZ(cuLaunchHostFunc)(s, on_host, NULL);
	else if (IS("graph")) {
		PTSZ(cuStreamBeginCapture_v2)(s, 0);
		for (int i = 0; i < 3; i++)
			LAUNCH(PTSZ(cuLaunchKernel), s, NULL, NULL);
		PTSZ(cuStreamEndCapture)(s, &graph);
		cuGraphInstantiateWithFlags(&event, graph, NUMBER(0));
		TIMES PTSZ(cuGraphLaunch)(event, s);
	}
	else if (IS("copies")) {
		PTDS(cuMemcpyHtoD_v2)(a, NULL, n); PTDS(cuMemcpyDtoH_v2)(NULL, a, 2 * n); PTDS(cuMemcpyDtoD_v2)(a, a, 3 * n); PTDS(cuMemcpy)(a, a, 4 * n);
		PTSZ(cuMemcpyHtoDAsync_v2)(a, NULL, 5 * n, s); PTSZ(cuMemcpyDtoHAsync_v2)(NULL, a, 6 * n, s);
		PTSZ(cuMemcpyPeerAsync)(a, NULL, a, NULL, 7 * n, s); PTSZ(cuMemcpyAsync)(a, a, 8 * n, s);
	}
	else if (IS("planes")) {
		*(int *)(bytes + 16) = 1; *(int *)(bytes + 72) = 2; *(u64 *)(bytes + 112) = n; *(u64 *)(bytes + 120) = 3;
		PTSZ(cuMemcpy2DAsync_v2)(bytes, s);
		memset(bytes, 0, sizeof(bytes));
		*(int *)(bytes + 32) = 2; *(int *)(bytes + 120) = 1; *(u64 *)(bytes + 176) = n; *(u64 *)(bytes + 184) = 3; *(u64 *)(bytes + 192) = 5;
		PTSZ(cuMemcpy3DAsync_v2)(bytes, s);
	}
	else if (IS("batch")) {
		for (u64 i = 0; i < 16; i++)
			sizes[i] = n * i;
		PTSZ(cuMemcpyBatchAsync)(NULL, NULL, sizes, NUMBER(16), NULL, NULL, NUMBER(0), NULL, s);
	}
	else if (IS("fills")) {
		PTDS(cuMemsetD8_v2)(a, 1, n); PTDS(cuMemsetD16_v2)(a, 1, n);
		PTSZ(cuMemsetD32Async)(a, 1, n, s); PTSZ(cuMemsetD2D32Async)(a, NUMBER(0), 1, n, NUMBER(3), s);
	}
	else if (IS("memory")) {
		cuMemAlloc_v2(&a, n); cuMemAlloc_v2(&a, n); cuMemFree_v2(a); cuMemAlloc_v2(&a, 1ul << 50); cuMemFree_v2(NUMBER(0x1234));
		cuMemAllocPitch_v2(&a, sizes, n, NUMBER(3), 4); cuMemAllocManaged(&a, n, 1); cuMemHostAlloc(&a, n, 0); cuMemFreeHost(a);
		cuMemHostAlloc(&a, n, 0); cuMemCreate(&a, n, NULL, NUMBER(0)); cuMemRelease(a); cuMemCreate(&a, n, NULL, NUMBER(0));
		PTSZ(cuMemAllocAsync)(&a, n, s); PTSZ(cuMemFreeAsync)(a, s);
	}
	else if (IS("keep")) TIMES cuMemAlloc_v2(&a, 16);
	else if (IS("churn")) TIMES { cuMemAlloc_v2(&a, 64 + i); cuMemFree_v2(a); }
	else if (IS("waits")) TIMES {
		PTSZ(cuStreamSynchronize)(s); PTSZ(cuStreamQuery)(s); cuCtxSynchronize();
		cuEventCreate(&event, 0); PTSZ(cuEventRecord)(event, s); cuEventQuery(event); cuEventSynchronize(event);
	}
	else if (IS("fork")) { if (fork() == 0) _exit(0); wait(NULL); }
	else if (IS("sleep")) usleep(n * 1000);
	else if (IS("stop")) { puts("stopped"); fflush(stdout); getchar(); }
	else if (IS("exec")) { char *words[] = { "client", "device:0", "launch:7", NULL }; execv("/proc/self/exe", words); }
	else { fprintf(stderr, "client: no verb %s\n", verb); exit(2); }
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

	while ((option = getopt(count, words, "+wt:")) != -1) {
		if (option == 'w')
			getchar();
		else
			threads = atoi(optarg);
	}
	verbs = words + optind;
	verb_count = count - optind;
	for (int i = 1; i < threads; i++)
		pthread_create(&all[i], NULL, thread, NULL);
	thread(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
