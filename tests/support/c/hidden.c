/* A process that hides what it has, or claims what it has not. It prints `ready`
 * and stays until standard input ends. The first word says how, others are paths.
 *
 *   thread DEVICE       a thread with descriptors of its own has DEVICE open
 *   orphans DEVICE      the same, with a main thread that has ended and two more
 *   kept DEVICE         has DEVICE open; its main thread never comes to its end: it
 *                       closes a file of a FUSE server that does not answer
 *   relay DEVICE        has DEVICE open; its main thread has ended, and each of the
 *                       others begins the next one and ends
 *   named DEVICE...     names devices without opening them (O_PATH)
 *   refused DEVICE      has DEVICE open, and twice a file of a FUSE server of
 *                       its own, which refuses root
 *   lock                holds the lock of its memory for good (see stuck_lock), as
 *                       a user
 *   many T N DEVICE     T threads with tables of their own, each with N
 *                       descriptors of /dev/null; the last one has DEVICE open
 *                       behind them
 *   entries N           environ has N entries, all of them one long string
 *   libraries FILE...   maps the files as code
 *   swap                environ points to a page that is now memory with a
 *                       string, now a page of a FUSE server that never answers
 */
#include "stuck.h"

#include <sys/resource.h>

extern char **environ;
static const char *how;
static const char *device;
static volatile int there;

static int opened(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		stuck_fail(path);
	return fd;
}

/* The flags of a thread, the ninth field of its stat. */
static unsigned flags_of(const char *stat)
{
	unsigned flags = 0;

	sscanf(strrchr(stat, ')') + 2, "%*c %*d %*d %*d %*d %*d %u", &flags);
	return flags;
}

static void *own_table(void *nothing)
{
	if (unshare(CLONE_FILES))
		stuck_fail("unshare");
	opened(device);
	there = 1;
	pause();
	return nothing;
}

static void *idle(void *nothing)
{
	char byte;

	while (!there)
		usleep(1000);
	printf("ready\n");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
	return nothing;
}

static void thread(void *(*what)(void *), void *with)
{
	pthread_t id;

	if (pthread_create(&id, NULL, what, with))
		stuck_fail("thread");
}

/* Waits until the one before is gone, begins the next and ends. */
static void *relayed(void *before)
{
	struct pollfd end = { 0, POLLIN | POLLHUP };
	pthread_t next;

	if (before)
		pthread_join((pthread_t)before, NULL);
	if (there++ == 100)
		printf("ready\n"), fflush(stdout);
	if (there % 100 == 0 && poll(&end, 1, 0) > 0)
		_exit(0);
	if (pthread_create(&next, NULL, relayed, (void *)pthread_self()))
		stuck_fail("thread");
	return NULL;
}

/* The main thread has a table of descriptors of its own, in which a file is that takes for
 * ever to close. */
static void *kept(void *nothing)
{
	char path[64], text[512];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	do {
		usleep(1000);
		fd = open(path, O_RDONLY);
		text[read(fd, text, sizeof(text) - 1)] = 0;
		close(fd);
		/* Flags are the ninth field; 4 is PF_EXITING. */
	} while (!(flags_of(text) & 4));
	there = 1;
	return idle(nothing);
}

static int each;

/* Fills a table that is this thread's own, the last thread's with the device. */
static void *fill(void *last)
{
	int null;

	if (unshare(CLONE_FILES))
		stuck_fail("unshare");
	null = opened("/dev/null");
	for (int at = 0; at < each; at++)
		if (dup(null) < 0)
			stuck_fail("dup");
	if (last)
		opened(device);
	__sync_fetch_and_add(&there, 1);
	pause();
	return NULL;
}

static void many(int threads, int count)
{
	struct rlimit limit = { count + 64, count + 64 };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		stuck_fail("limit");
	each = count;
	for (int at = 1; at <= threads; at++)
		thread(fill, at == threads ? &each : NULL);
	while (there < threads)
		usleep(1000);
}

static void entries(int count)
{
	char **all = calloc(count + 1, sizeof(*all));
	char *text = malloc(32 << 10);

	memset(text, 'x', 30 << 10);
	memcpy(text, "CUDA_VISIBLE_DEVICES=", 21);
	text[30 << 10] = 0;
	for (int at = 0; at < count; at++)
		all[at] = text;
	environ = all;
}

/* Mounts a server whose files nobody but this user may look at, root neither. */
static void mount_of(unsigned uid)
{
	struct stuck_plan plan = { 0 };
	char options[96];
	int fuse;

	stuck_namespace();
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		stuck_fail("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=%u,group_id=%u", fuse, uid,
		 uid);
	if (mount("stuck", STUCK_PLACE, "fuse.stuck", MS_NOSUID | MS_NODEV, options))
		stuck_fail("mount");
	if (fork() == 0)
		stuck_serve(fuse, &plan);
	close(fuse);
}

/* The main thread alone: the C library would wait for all others. */
static void become(unsigned uid)
{
	if (syscall(SYS_setresgid, uid, uid, uid) || syscall(SYS_setresuid, uid, uid, uid))
		stuck_fail("setresuid");
}

static void swap(void)
{
	static char *strings[2];
	struct stuck_plan plan = { 0 };
	char *page;
	int fd;

	stuck_mount(&plan);
	fd = stuck_file();
	page = mmap(NULL, STUCK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strings[0] = page;
	environ = strings;
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		char *next = mmap(NULL, STUCK_PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		strcpy(next, "CUDA_VISIBLE_DEVICES=7");
		mremap(next, STUCK_PAGE, STUCK_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page);
		for (volatile int wait = 0; wait < 20000; wait++)
			;
		mmap(page, STUCK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
	}
}

int main(int words, char **word)
{
	char byte;

	if (words < 2)
		return 2;
	how = word[1];
	device = word[words - 1];
	if (!strcmp(how, "thread") || !strcmp(how, "orphans")) {
		thread(own_table, NULL);
		while (!there)
			usleep(1000);
		if (!strcmp(how, "orphans")) {
			thread(idle, NULL);
			pthread_exit(NULL);
		}
	}
	if (!strcmp(how, "kept")) {
		struct stuck_plan plan = { .kept = 1 };

		opened(device);
		stuck_mount(&plan);
		thread(kept, NULL);
		if (unshare(CLONE_FILES))
			stuck_fail("unshare");
		stuck_file();
		syscall(SYS_exit, 0);
	}
	if (!strcmp(how, "relay")) {
		opened(device);
		thread(relayed, NULL);
		pthread_exit(NULL);
	}
	if (!strcmp(how, "named"))
		for (int at = 2; at < words; at++)
			open(word[at], O_PATH);
	if (!strcmp(how, "refused")) {
		opened(device);
		mount_of(65534);
		become(65534);
		stuck_file();
		stuck_file();
	}
	if (!strcmp(how, "many"))
		many(atoi(word[2]), atoi(word[3]));
	if (!strcmp(how, "entries"))
		entries(atoi(word[2]));
	if (!strcmp(how, "libraries"))
		for (int at = 2; at < words; at++)
			if (mmap(NULL, STUCK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, opened(word[at]),
				 0) == MAP_FAILED)
				stuck_fail("mmap");
	if (!strcmp(how, "lock")) {
		stuck_lock();
		become(65534);
	}
	if (!strcmp(how, "swap"))
		swap();
	printf("ready\n");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}
