/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * activity THREADS ROUNDS: how long a launch takes, in nanoseconds, in rounds of
 * 1,000: the median of each thread's rounds, a line for each thread.
 * activity -r RATE SECONDS: that many launches a second, evenly, by one thread.
 * Linked with the stand-in driver of tests/support/c/cuda.
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
	printf("%.0f\n", times[rounds / 2]);
	return NULL;
}

/* Sleeps would cost more than they give at such rates: ten launches at a time. */
static void pace(double rate, double seconds)
{
	double begun = now(), at = begun;
	long launches = 0;
	void *context;

	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	for (; at - begun < seconds * 1e9; at += 10e9 / rate) {
		while (now() < at)
			;
		for (int call = 0; call < 10; call++, launches++)
			cuLaunchKernel((void *)8, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	}
	printf("%ld launches in %.2f s\n", launches, (now() - begun) / 1e9);
}

int main(int count, char **words)
{
	if (count > 3 && words[1][0] == '-') {
		pace(atof(words[2]), atof(words[3]));
		return 0;
	}

	pthread_t threads[16];
	int number = count > 1 ? atoi(words[1]) : 1;

	rounds = count > 2 ? atoi(words[2]) : 300;
	for (int i = 0; i < number; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
