/* A process whose threads are not where, or do not have what, its main thread does. It
 * prints `ready` and stays until standard input ends. The first word says how.
 *
 *   elsewhere CGROUP    a thread moves itself into the threaded CGROUP
 *   ended               the main thread has ended, another one lives
 *   hop CGROUP CGROUP   moves to and fro between both
 *   groups              has as many supplementary groups as a process can
 *   idle                has nothing special
 *   shared T N          T threads share a table of N descriptors of /dev/null, and the
 *                       main thread has a table of its own
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *cgroup;
static pthread_t first;

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void wait_for_end(void)
{
	char byte;

	printf("ready\n");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}

static void *elsewhere(void *nothing)
{
	char path[4096], number[32];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.threads", cgroup);
	fd = open(path, O_WRONLY);
	snprintf(number, sizeof(number), "%ld", syscall(SYS_gettid));
	if (fd < 0 || write(fd, number, strlen(number)) < 0)
		fail(path);
	wait_for_end();
	return nothing;
}

static int state_of_main(void)
{
	char path[64], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", getpid(), getpid());
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		fail(path);
	close(fd);
	return strrchr(text, ')')[2];
}

static void *ended(void *nothing)
{
	while (state_of_main() != 'Z')
		usleep(1000);
	wait_for_end();
	return nothing;
}

static void *idle(void *nothing)
{
	pause();
	return nothing;
}

static void shared(int threads, int count)
{
	struct rlimit limit = { count + 64, count + 64 };
	pthread_attr_t small;
	pthread_t id;
	int null;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("limit");
	null = open("/dev/null", O_RDWR);
	for (int at = 0; at < count; at++)
		if (dup(null) < 0)
			fail("dup");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int at = 0; at < threads; at++)
		if (pthread_create(&id, &small, idle, NULL))
			fail("thread");
	if (unshare(CLONE_FILES))
		fail("unshare");
	for (int fd = 3; fd < count + 64; fd++)
		close(fd);
}

static void groups(void)
{
	static gid_t all[65536];

	for (unsigned at = 0; at < 65536; at++)
		all[at] = 4000000000u + at;
	if (setgroups(65536, all))
		fail("setgroups");
}

static void *hop(void *both)
{
	char **cgroups = both, path[4096];
	int fds[2];

	for (int at = 0; at < 2; at++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", cgroups[at]);
		fds[at] = open(path, O_WRONLY);
		if (fds[at] < 0)
			fail(path);
	}
	for (unsigned at = 0;; at++) {
		if (write(fds[at & 1], "0", 1) < 0)
			fail("move");
		usleep(50);
	}
}

int main(int words, char **word)
{
	if (words < 2)
		return 2;
	cgroup = word[words - 1];
	if (!strcmp(word[1], "elsewhere")) {
		if (pthread_create(&first, NULL, elsewhere, NULL))
			fail("thread");
		pause();
	}
	if (!strcmp(word[1], "ended")) {
		if (pthread_create(&first, NULL, ended, NULL))
			fail("thread");
		pthread_exit(NULL);
	}
	if (!strcmp(word[1], "hop") && pthread_create(&first, NULL, hop, word + 2))
		fail("thread");
	if (!strcmp(word[1], "groups"))
		groups();
	if (!strcmp(word[1], "shared"))
		shared(atoi(word[2]), atoi(word[3]));
	wait_for_end();
}
