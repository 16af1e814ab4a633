/* Times calls of setenv, as many as are asked for, in rounds: nanoseconds a
 * call, one line a round.
 *
 *   setenv NAME CALLS ROUNDS
 *
 * Two values in turn, as a program that changes its mind. Begins after half a
 * second, for the process to be found. With no calls it waits to be ended. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **words)
{
	if (count != 4) {
		fprintf(stderr, "usage: setenv NAME CALLS ROUNDS\n");
		return 2;
	}
	long calls = atol(words[2]), rounds = atol(words[3]);

	usleep(500000);
	if (!calls)
		pause();
	for (long round = 0; round < rounds; round++) {
		double start = now();

		for (long call = 0; call < calls; call++)
			setenv(words[1], call & 1 ? "0,1" : "2,3", 1);
		printf("%.1f\n", (now() - start) / calls);
	}
	return 0;
}
