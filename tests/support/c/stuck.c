/* A process whose memory never comes, in one of many ways. It prints `ready`,
 * its pid and the pid of the FUSE server (0 without one), does what it was told,
 * and stays until standard input ends (then the server ends too, and nothing is
 * stuck any more). The first word says which pages: `fuse` or `userfault`.
 *
 *   setenv-name | setenv-value | putenv-name | putenv-value | unsetenv-name
 *        calls the function with that argument on such a page, in a thread
 *   putenv-later     a value on such a page, which putenv does not touch
 *   environ-string   environ points to a string there
 *   environ-array    environ itself is there
 *   environ-area     the area that /proc/PID/environ shows is there
 *   region           a file of the size of a shared region is mapped, and no page
 *                    of it ever comes (fuse alone)
 *   lock             the lock of the memory map is held (see stuck_lock) */
#include "stuck.h"

#define NAME "CUDA_VISIBLE_DEVICES"

extern char **environ;
static const char *how;
static char *page;

/* `text` at the end of a page that is there, and what follows it is not. */
static char *before(const char *text)
{
	size_t length = strlen(text);

	return memcpy(page - length, text, length);
}

static void *call(void *nothing)
{
	if (!strcmp(how, "setenv-name"))
		setenv(page, "1", 1);
	if (!strcmp(how, "setenv-value"))
		setenv(NAME, page, 1);
	if (!strcmp(how, "putenv-name"))
		putenv(page);
	if (!strcmp(how, "unsetenv-name"))
		unsetenv(page);
	if (!strcmp(how, "putenv-value") || !strcmp(how, "putenv-later"))
		putenv(before(NAME "="));
	return nothing;
}

/* Two pages: one that is there, and then `page`, which never comes. */
static void pages(const char *kind)
{
	char *two = mmap(NULL, 2 * STUCK_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (two == MAP_FAILED)
		stuck_fail("mmap");
	page = two + STUCK_PAGE;
	if (!strcmp(kind, "fuse")) {
		int fd = stuck_file();

		if (mmap(page, STUCK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) !=
		    page)
			stuck_fail("mmap");
		close(fd);
	} else {
		stuck_guard(page, 1);
	}
}

/* Puts the page over the one in which the environment of the execve begins. */
static void cover_area(void)
{
	char *area = (char *)((uintptr_t)environ[0] & ~(uintptr_t)(STUCK_PAGE - 1));

	if (mremap(page, STUCK_PAGE, STUCK_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area) != area)
		stuck_fail("mremap");
}

/* What libvgpu.so does with its region; so many bytes has layout v0a. */
static void map_region(void)
{
	int fd = stuck_file();

	if (mmap(NULL, 197 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		stuck_fail("region");
}

int main(int words, char **word)
{
	static char *strings[2];
	struct stuck_plan plan = { 0 };
	pthread_t thread;
	pid_t server = 0;
	char byte;

	if (words != 3)
		return 2;
	how = word[2];
	if (!strcmp(how, "lock")) {
		server = stuck_lock();
	} else {
		if (!strcmp(word[1], "fuse"))
			server = stuck_mount(&plan);
		pages(word[1]);
	}
	if (!strcmp(how, "environ-string")) {
		strings[0] = page;
		environ = strings;
	} else if (!strcmp(how, "environ-array")) {
		environ = (char **)page;
	} else if (!strcmp(how, "environ-area")) {
		cover_area();
	} else if (!strcmp(how, "region")) {
		map_region();
	} else if (strcmp(how, "lock") && pthread_create(&thread, NULL, call, NULL)) {
		stuck_fail("thread");
	}
	usleep(300000);
	dprintf(1, "ready %d %d\n", getpid(), server);
	while (read(0, &byte, 1) > 0)
		;
	/* Not exit(): it would touch what never comes. */
	_exit(0);
}
