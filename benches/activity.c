/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * activity THREADS ROUNDS: how long a launch takes, in nanoseconds, in rounds of
 * 1,000: the fastest round and the median of each thread's, then of all. Linked
 * with the stand-in driver of tests/support/c/cuda.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cuDevicePrimaryCtxRetain(), cuCtxSetCurrent(), cuStreamCreate(), cuLaunchKernel();
static int rounds;

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1e9 + at.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double difference = *(double *)a - *(double *)b;

	return (difference > 0) - (difference < 0);
}

static void *run(void *x)
{
	double *times = malloc(rounds * sizeof(*times));
	void *context;
	uint64_t stream;

	(void)x;
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	cuStreamCreate(&stream, 0);
	for (int round = 0; round < rounds; round++) {
		double from = now();

		for (int call = 0; call < 1000; call++)
			cuLaunchKernel((void *)8, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
		times[round] = (now() - from) / 1000;
	}
	qsort(times, rounds, sizeof(*times), ascending);
	printf("fastest %.0f ns, tenth %.0f ns, median %.0f ns\n", times[0], times[rounds / 10], times[rounds / 2]);
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[16];
	int number = count > 1 ? atoi(words[1]) : 1;

	rounds = count > 2 ? atoi(words[2]) : 300;
	for (int i = 0; i < number; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
