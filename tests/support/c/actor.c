/* A process that does what its arguments say, one after the other, then waits
 * for its end (ten minutes at most):
 *   setenv NAME VALUE | putenv NAME=VALUE | unsetenv NAME   change its environment
 *   open PATH       open it for reading and writing and keep it open
 *   refused PATH    make sure that opening it is refused (EPERM)
 *   join FILE       write its pid into FILE, such as a cgroup.procs
 *   ready FILE      write its pid into FILE, by renaming */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char *action, const char *what)
{
	fprintf(stderr, "actor: %s %s: %s\n", action, what, strerror(errno));
	exit(1);
}

static void write_pid(const char *path, int flags)
{
	char text[16];
	int length = snprintf(text, sizeof text, "%d", getpid());
	int fd = open(path, O_WRONLY | flags, 0644);

	if (fd < 0 || write(fd, text, length) != length || close(fd) != 0)
		fail("write", path);
}

static void ready(const char *path)
{
	char temporary[4096];

	snprintf(temporary, sizeof temporary, "%s.new", path);
	write_pid(temporary, O_CREAT | O_TRUNC);
	if (rename(temporary, path) != 0)
		fail("ready", path);
}

int main(int argc, char **argv)
{
	char **arg = argv + 1;

	alarm(600);
	while (*arg) {
		const char *action = *arg++;
		char *what = *arg++;
		int fd;

		if (!what)
			fail(action, "needs an argument");
		if (strcmp(action, "setenv") == 0) {
			if (!*arg || setenv(what, *arg++, 1) != 0)
				fail(action, what);
		} else if (strcmp(action, "putenv") == 0) {
			if (putenv(what) != 0)
				fail(action, what);
		} else if (strcmp(action, "unsetenv") == 0) {
			if (unsetenv(what) != 0)
				fail(action, what);
		} else if (strcmp(action, "open") == 0) {
			if (open(what, O_RDWR) < 0)
				fail(action, what);
		} else if (strcmp(action, "refused") == 0) {
			fd = open(what, O_RDWR);
			if (fd >= 0 || errno != EPERM)
				fail("was not refused", what);
		} else if (strcmp(action, "join") == 0) {
			write_pid(what, 0);
		} else if (strcmp(action, "ready") == 0) {
			ready(what);
		} else {
			fail("unknown action", action);
		}
	}
	(void)argc;
	for (;;)
		pause();
}
