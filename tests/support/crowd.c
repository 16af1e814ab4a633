/* Processes for the scanner's test: `crowd MODE [PATH]` makes itself strange,
 * says "ready" and sleeps. PATH is a block device's node. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;
static pthread_barrier_t all;

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void *wait_for_all(void *unused)
{
	pthread_barrier_wait(&all);
	for (;;)
		pause();
}

static void open_some(int nulls, int zeros)
{
	while (nulls--)
		open("/dev/null", O_RDONLY);
	while (zeros--)
		open("/dev/zero", O_RDONLY);
}

/* A table of its own, shared with the thread it starts. */
static void *leave_table(void *unused)
{
	pthread_t thread;

	if (unshare(CLONE_FILES))
		abort();
	open_some(3, 1);
	pthread_create(&thread, NULL, wait_for_all, NULL);
	return wait_for_all(NULL);
}

/* Ends the process that it is, and goes on: the main thread alone ends. */
static void *outlive(void *main_thread)
{
	open_some(1, 2);
	pthread_join(*(pthread_t *)main_thread, NULL);
	ready();
	for (;;)
		pause();
}

static void write_title(const char *title)
{
	char *start = environ[0], *end = start;

	for (char **entry = environ; *entry; entry++)
		end = *entry + strlen(*entry) + 1;
	memset(start, 0, end - start);
	strcpy(start, title);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_t thread, own = pthread_self();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Whatever was left open by who runs the tests. */
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	pthread_barrier_init(&all, NULL, strstr(mode, "tables") ? 3 : 1);
	if (!strcmp(mode, "title"))
		write_title("postgres: writer process");
	if (!strcmp(mode, "devices")) {
		open_some(40, 1);
		open("/dev/null", O_PATH);
		open(argv[2], O_PATH);
		open("/etc/passwd", O_RDONLY);
	}
	if (!strcmp(mode, "threads"))
		for (int i = 0; i < 7; i++)
			pthread_create(&thread, NULL, wait_for_all, NULL);
	if (strstr(mode, "tables")) {
		open_some(1, 0);
		pthread_create(&thread, NULL, leave_table, NULL);
		pthread_barrier_wait(&all);
	}
	if (!strncmp(mode, "dead", 4)) {
		pthread_create(&thread, NULL, outlive, &own);
		pthread_exit(NULL);
	}
	if (!strcmp(mode, "namespace")) {
		if (unshare(CLONE_NEWPID))
			abort();
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			open_some(2, 2);
			ready();
			for (;;)
				pause();
		}
	} else {
		ready();
	}
	for (;;)
		pause();
}
