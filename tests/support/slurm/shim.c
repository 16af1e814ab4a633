/* For slurmd on a host that mounts v1 controllers beside cgroup2: Slurm takes
 * such a host for a v1 one as soon as it sees a v1 line in /proc/PID/cgroup.
 * Preloaded, this shows it the file with the cgroup2 line alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*open_function)(const char *, int, ...);
typedef FILE *(*fopen_function)(const char *, const char *);

/* Whether this is /proc/self/cgroup or /proc/NUMBER/cgroup. */
static int is_cgroup_file(const char *path)
{
	char rest[8] = "";
	unsigned pid;

	if (!path || strncmp(path, "/proc/", 6) != 0)
		return 0;
	if (strcmp(path, "/proc/self/cgroup") == 0)
		return 1;
	return sscanf(path, "/proc/%u/%7s", &pid, rest) == 2 && strcmp(rest, "cgroup") == 0;
}

/* A memory file with the lines of `path` that begin with "0::". */
static int cgroup2_lines(const char *path)
{
	fopen_function next = (fopen_function)dlsym(RTLD_NEXT, "fopen");
	FILE *from = next(path, "re");
	char *line = NULL;
	size_t size = 0;
	int to;

	if (!from)
		return -1;
	to = memfd_create("cgroup", MFD_CLOEXEC);
	while (to >= 0 && getline(&line, &size, from) > 0)
		if (strncmp(line, "0::", 3) == 0 && write(to, line, strlen(line)) < 0)
			abort();
	free(line);
	fclose(from);
	if (to >= 0)
		lseek(to, 0, SEEK_SET);
	return to;
}

#define OPEN(name)                                                             \
	int name(const char *path, int flags, ...)                             \
	{                                                                      \
		mode_t mode = 0;                                               \
		va_list rest;                                                  \
		if (is_cgroup_file(path))                                      \
			return cgroup2_lines(path);                            \
		va_start(rest, flags);                                         \
		if (flags & (O_CREAT | O_TMPFILE))                             \
			mode = va_arg(rest, mode_t);                           \
		va_end(rest);                                                  \
		return ((open_function)dlsym(RTLD_NEXT, #name))(path, flags, mode); \
	}

#define FOPEN(name)                                                            \
	FILE *name(const char *path, const char *how)                          \
	{                                                                      \
		int fd;                                                        \
		if (!is_cgroup_file(path))                                     \
			return ((fopen_function)dlsym(RTLD_NEXT, #name))(path, how); \
		fd = cgroup2_lines(path);                                      \
		return fd < 0 ? NULL : fdopen(fd, how);                        \
	}

OPEN(open)
OPEN(open64)
FOPEN(fopen)
FOPEN(fopen64)
