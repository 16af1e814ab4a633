/* Times how long it takes to execute a program and to wait for its end:
 * nanoseconds, one line a round.
 *
 *   exec COUNT ROUNDS
 *
 * The program is this one, to be compiled statically, with 80 variables as a
 * job has them, one of which chooses devices. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VARIABLES = 80 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **words)
{
	static char text[VARIABLES][64];
	char *environment[VARIABLES + 1] = {0}, *program[] = {words[0], NULL};

	if (count == 1)
		return 0;
	if (count != 3) {
		fprintf(stderr, "usage: exec COUNT ROUNDS\n");
		return 2;
	}
	for (int one = 0; one < VARIABLES; one++) {
		snprintf(text[one], sizeof(text[one]), "SOME_VARIABLE_%d=/usr/lib/some/place/%d", one, one);
		environment[one] = text[one];
	}
	environment[VARIABLES / 2] = "CUDA_VISIBLE_DEVICES=0,1";
	long calls = atol(words[1]), rounds = atol(words[2]);

	for (long round = 0; round < rounds; round++) {
		double start = now();

		for (long call = 0; call < calls; call++) {
			pid_t pid = vfork();

			if (pid == 0) {
				execve("/proc/self/exe", program, environment);
				_exit(1);
			}
			waitpid(pid, NULL, 0);
		}
		printf("%.0f\n", (now() - start) / calls);
	}
	return 0;
}
