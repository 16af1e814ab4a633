/* A process that maps files in the ways that its arguments say, one after the
 * other, then waits for its end (ten minutes at most):
 *   uid NUMBER             becomes this user
 *   map PATH               maps a file as code
 *   lease PATH             the same, with a lease for writing on it
 *   junk DIR COUNT ROUNDS  maps that many new files called like a C library, and
 *                          executes itself anew, so often
 *   swap A DIR B ROUNDS    maps copies of A and B in turn at one place, each for
 *                          moments, and executes itself anew, so often
 *   stuck PATH             mounts a FUSE file over PATH whose server answers no
 *                          READ, and maps it as code
 *   ready FILE             makes the file
 *   fork                   goes on in a child
 *   setenv VALUE           sets CUDA_VISIBLE_DEVICES */
#include "stuck.h"

#include <sys/wait.h>
#include <time.h>

/* A page. */
#define LENGTH ((size_t)sysconf(_SC_PAGESIZE))

static void fail(const char *what)
{
	fprintf(stderr, "mapper: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void *map(int fd, void *at)
{
	int fixed = at ? MAP_FIXED : 0;
	void *mapped = mmap(at, LENGTH, PROT_READ | PROT_EXEC, MAP_PRIVATE | fixed, fd, LENGTH);

	if (mapped == MAP_FAILED)
		fail("mmap");
	return mapped;
}

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0755);

	if (fd < 0)
		fail(path);
	return fd;
}

static void lease(const char *path)
{
	int fd = open_file(path, O_RDONLY);

	signal(SIGIO, SIG_IGN);
	map(fd, NULL);
	if (fcntl(fd, F_SETLEASE, F_WRLCK))
		fail("lease");
}

/* A copy of a file, or junk of two pages. */
static int copy(const char *from, const char *to)
{
	static char buffer[1 << 18];
	int output = open_file(to, O_RDWR | O_CREAT | O_EXCL);
	ssize_t size = 2 * LENGTH;

	if (from) {
		int input = open_file(from, O_RDONLY);

		size = read(input, buffer, sizeof(buffer));
		close(input);
	}
	if (size < 0 || write(output, buffer, size) != size)
		fail(to);
	close(output);
	return open_file(to, O_RDONLY);
}

/* Executes itself with the same arguments, but with fewer rounds to go. */
static void again(char **argv, char **rounds)
{
	static char left[16];
	int count = atoi(*rounds);

	if (count <= 1)
		return;
	snprintf(left, sizeof(left), "%d", count - 1);
	*rounds = left;
	execv("/proc/self/exe", argv);
	fail("exec");
}

static void junk(char **argv, char **word)
{
	char path[512];

	for (int i = 0; i < atoi(word[1]); i++) {
		snprintf(path, sizeof(path), "%s/libc.so.%s-%d", word[0], word[2], i);
		int fd = copy(NULL, path);

		map(fd, NULL);
		close(fd);
	}
	usleep(400000);
	again(argv, word + 2);
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void swap(char **argv, char **word)
{
	char path[512];
	long end = now() + 40;

	snprintf(path, sizeof(path), "%s/libc.so.%s", word[1], word[3]);
	int one = copy(word[0], path), other = open_file(word[2], O_RDONLY);
	void *at = map(one, NULL);

	while (now() < end) {
		map(one, at);
		for (volatile int i = 0; i < 20000; i++)
			;
		map(other, at);
		for (volatile int i = 0; i < 20000; i++)
			;
	}
	again(argv, word + 3);
}

static void stuck(const char *path)
{
	struct stuck_plan plan = { 0 };

	stuck_mount(&plan);
	if (mount(STUCK_PLACE "/file", path, NULL, MS_BIND, NULL))
		fail("bind");
	map(open_file(path, O_RDONLY), NULL);
}

int main(int argc, char **argv)
{
	alarm(600);
	for (char **word = argv + 1; *word; word++) {
		if (!strcmp(*word, "uid")) {
			unsigned uid = atoi(*++word);

			if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
				fail("uid");
		} else if (!strcmp(*word, "map")) {
			map(open_file(*++word, O_RDONLY), NULL);
		} else if (!strcmp(*word, "lease")) {
			lease(*++word);
		} else if (!strcmp(*word, "junk")) {
			junk(argv, word + 1);
			word += 3;
		} else if (!strcmp(*word, "swap")) {
			swap(argv, word + 1);
			word += 4;
		} else if (!strcmp(*word, "stuck")) {
			stuck(*++word);
		} else if (!strcmp(*word, "ready")) {
			close(open_file(*++word, O_WRONLY | O_CREAT));
		} else if (!strcmp(*word, "fork")) {
			if (fork() > 0)
				wait(NULL), _exit(0);
		} else if (!strcmp(*word, "setenv")) {
			setenv("CUDA_VISIBLE_DEVICES", *++word, 1);
		} else {
			fail(*word);
		}
	}
	for (;;)
		pause();
}
