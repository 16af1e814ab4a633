/* A process that holds DEVICE in a way that is gone when somebody looks. It prints `ready`
 * and goes on until standard input ends.
 *
 *   relay DEVICE US     every US microseconds a new process takes over, and the old one ends
 *   threads DEVICE US   the same with threads that have descriptors of their own
 *   exec DEVICE US      executes itself every US microseconds
 *   title DEVICE        has written a title over its environment, which it has moved
 *   lost DEVICE         the same, and has given up its environment
 *   short US            begins and ends a process every US microseconds; holds nothing
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *device;
static useconds_t period;

static int goes_on(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	return poll(&input, 1, 0) == 0;
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static void opened(void)
{
	if (open(device, O_RDWR) < 0) {
		perror(device);
		exit(1);
	}
}

static void relay(void)
{
	signal(SIGCHLD, SIG_IGN);
	ready();
	while (goes_on()) {
		usleep(period);
		if (fork())
			_exit(0);
	}
}

static void *one_of_many(void *first)
{
	pthread_t next;

	unshare(CLONE_FILES);
	if (first) {
		opened();
		ready();
	}
	usleep(period);
	pthread_create(&next, NULL, one_of_many, NULL);
	pthread_detach(pthread_self());
	return NULL;
}

static void title(char **argv, int moved)
{
	char *start = argv[0], *end;
	char **last = environ;

	while (last[1])
		last++;
	end = *last + strlen(*last) + 1;
	if (moved) {
		char **copy = calloc(last - environ + 2, sizeof(char *));
		for (int at = 0; environ[at]; at++)
			copy[at] = strdup(environ[at]);
		environ = copy;
	} else {
		static char *none[1];
		environ = none;
	}
	opened();
	memset(start, 0, end - start);
	memset(start, 't', end - start - 1);
}

int main(int argc, char **argv)
{
	const char *how = argv[1];
	pthread_t first;

	device = argv[2];
	period = argc > 3 ? atoi(argv[3]) : 0;
	if (!strcmp(how, "relay")) {
		opened();
		relay();
	} else if (!strcmp(how, "threads")) {
		pthread_create(&first, NULL, one_of_many, argv);
		while (goes_on())
			usleep(10000);
	} else if (!strcmp(how, "exec")) {
		if (argc < 5) {
			opened();
			ready();
		}
		usleep(period);
		if (goes_on())
			execl("/proc/self/exe", argv[0], how, device, argv[3], "again", (char *)NULL);
	} else if (!strcmp(how, "short")) {
		period = atoi(argv[2]);
		ready();
		while (goes_on()) {
			if (!fork())
				_exit(0);
			usleep(period);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		}
	} else {
		title(argv, !strcmp(how, "title"));
		ready();
		while (goes_on())
			usleep(10000);
	}
	return 0;
}
