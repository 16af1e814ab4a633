/* Times open and close of a device node, as many as are asked for, in rounds:
 * nanoseconds for both, one line a round.
 *
 *   open PATH OPENS ROUNDS
 *
 * It tells the time that opens take whether they succeed or are refused. */
#include <fcntl.h>
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
		fprintf(stderr, "usage: open PATH OPENS ROUNDS\n");
		return 2;
	}
	long opens = atol(words[2]), rounds = atol(words[3]);

	for (long round = 0; round < rounds; round++) {
		double start = now();

		for (long number = 0; number < opens; number++) {
			int file = open(words[1], O_RDWR);

			if (file >= 0)
				close(file);
		}
		printf("%.1f\n", (now() - start) / opens);
	}
	return 0;
}
