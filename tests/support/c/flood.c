/* Processes of a user that change their environment, calmly or as often as they
 * can, until standard input ends:
 *
 *   flood UID calm VALUE    one change to VALUE when a byte comes
 *   flood UID setenv        four threads that change a variable
 *   flood UID fork          four processes that fork children
 *   flood UID exec          four processes that execute themselves
 *   flood UID large         four threads that change all variables to long values
 *   flood UID wide N        N processes with long values of all variables
 *   flood UID space         eight processes of as many users in a user namespace
 *                           that UID made, which change a variable
 *
 * Begins as root, and is UID before it does anything of that. Prints `ready`. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "CUDA_VISIBLE_DEVICES"

static void fail(const char *what)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void become(int uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		fail("setresuid");
	/* This forgets what was asked before. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void *change(void *number)
{
	char value[64];

	for (long i = 0;; i++) {
		snprintf(value, sizeof(value), "%ld,%ld", (long)number, i);
		setenv(NAME, value, 1);
	}
	return NULL;
}

static const char *names[] = { "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
			       "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK" };
#define COUNT (sizeof(names) / sizeof(names[0]))

/* All variables, to values of 4000 bytes that take more when they are quoted. */
static void all(char first)
{
	char value[4001];

	memset(value, '\\', sizeof(value) - 1);
	value[0] = first;
	value[sizeof(value) - 1] = 0;
	for (unsigned at = 0; at < COUNT; at++)
		setenv(names[at], value, 1);
}

static void *enlarge(void *nothing)
{
	for (int i = 0;; i++)
		all('a' + i % 26);
	return NULL;
}

static void wide(int count)
{
	all('x');
	while (count-- > 0) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
		usleep(500);
	}
}

static void forks(void)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
}

static void executes(void)
{
	char *words[] = { "flood", "again", NULL };

	setenv(NAME, "9", 1);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	execv("/proc/self/exe", words);
	fail("exec");
}

static pid_t child(void)
{
	pid_t one = fork();

	if (one < 0)
		fail("fork");
	if (one == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return one;
}

/* Many users of a namespace whose map root writes, as newuidmap does. */
static void space(int uid)
{
	int made[2], mapped[2];
	char path[64], byte = 0;
	pid_t root;

	if (pipe(made) || pipe(mapped))
		fail("pipe");
	root = child();
	if (root) {
		FILE *map;

		read(made[0], &byte, 1);
		for (int group = 0; group < 2; group++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", root, group ? "gid_map" : "uid_map");
			map = fopen(path, "w");
			if (!map || fprintf(map, "0 %d 65536\n", 10000000) < 0 || fclose(map))
				fail(path);
		}
		write(mapped[1], &byte, 1);
		return;
	}
	become(uid);
	if (unshare(CLONE_NEWUSER))
		fail("unshare");
	write(made[1], &byte, 1);
	read(mapped[0], &byte, 1);
	for (int user = 1; user <= 8; user++) {
		if (child() == 0) {
			become(1000 * user);
			change((void *)(long)user);
		}
	}
	pause();
}

int main(int words, char **word)
{
	pthread_t thread;
	char byte;
	int uid;

	if (words == 2 && !strcmp(word[1], "again")) {
		usleep(200);
		executes();
	}
	if (words < 3)
		return 2;
	uid = atoi(word[1]);
	if (!strcmp(word[2], "space")) {
		space(uid);
	} else if (!strcmp(word[2], "fork") || !strcmp(word[2], "exec")) {
		for (int i = 0; i < 4; i++) {
			if (child() == 0) {
				become(uid);
				if (!strcmp(word[2], "fork"))
					forks();
				executes();
			}
		}
	} else {
		become(uid);
	}
	for (long i = 0; i < 4 && !strcmp(word[2], "setenv"); i++)
		pthread_create(&thread, NULL, change, (void *)i);
	for (long i = 0; i < 4 && !strcmp(word[2], "large"); i++)
		pthread_create(&thread, NULL, enlarge, NULL);
	if (!strcmp(word[2], "wide"))
		wide(atoi(word[3]));
	dprintf(1, "ready\n");
	if (!strcmp(word[2], "calm") && words == 4 && read(0, &byte, 1) == 1) {
		setenv(NAME, word[3], 1);
		dprintf(1, "done\n");
	}
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
