/* Memory that never comes: pages of a file whose FUSE server answers no READ,
 * and pages that a userfaultfd guards which nobody serves. Whoever touches one
 * sleeps, and a touch by the kernel on somebody's behalf puts that one to sleep.
 *
 * Nothing stays stuck: the FUSE server is a child that ends when standard input
 * is closed, or after STUCK_SECONDS, and with it the kernel aborts the
 * connection and fails every sleeper. A userfaultfd ends with its process.
 *
 * Works as root, and as a user who may make user namespaces (FUSE alone there).
 * Needs no package: the protocol is spoken over /dev/fuse. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* After so long the server ends by itself, whatever became of the others. */
#ifndef STUCK_SECONDS
#define STUCK_SECONDS 240
#endif
#define STUCK_PAGE ((size_t)sysconf(_SC_PAGESIZE))
/* Bytes of the largest pages there are. */
#define STUCK_LARGEST (1 << 16)
/* Where the file system is mounted, in a mount namespace of its own. */
#define STUCK_PLACE "/mnt"
#define STUCK_SIZE (1 << 20)

static void stuck_fail(const char *what)
{
	fprintf(stderr, "stuck: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* What the server gives out: pages below `answered` have `text` at their
 * beginning, all others never come. `direct` makes the first OPEN bypass the
 * page cache, for stuck_lock. With `kept` nobody's close of the file comes to an
 * end, not even that of a thread which ends. */
struct stuck_plan {
	uint64_t answered;
	char text[STUCK_LARGEST];
	int direct;
	int kept;
};

static void stuck_reply(int fuse, uint64_t unique, int error, const void *data, size_t size)
{
	struct fuse_out_header head = { .len = sizeof(head) + size, .error = error, .unique = unique };
	struct iovec parts[2] = { { &head, sizeof(head) }, { (void *)data, size } };

	if (writev(fuse, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		exit(0);
}

static struct fuse_attr stuck_attributes(uint64_t node)
{
	struct fuse_attr attr = { .ino = node, .nlink = 1, .blksize = STUCK_PAGE };

	attr.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0777;
	attr.size = node == FUSE_ROOT_ID ? 0 : STUCK_SIZE;
	return attr;
}

static void stuck_open(int fuse, uint64_t unique, const struct stuck_plan *plan)
{
	static int opened;
	struct fuse_open_out out = { 0 };

	if (opened++ == 0 && plan->direct)
		out.open_flags = FOPEN_DIRECT_IO;
	stuck_reply(fuse, unique, 0, &out, sizeof(out));
}

static void stuck_answer(int fuse, char *request, const struct stuck_plan *plan)
{
	struct fuse_in_header *head = (struct fuse_in_header *)request;
	void *body = request + sizeof(*head);

	switch (head->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = 31,
					     .max_write = STUCK_PAGE, .max_background = 64 };

		/* No reading ahead: each page is asked for by who touches it. */
		stuck_reply(fuse, head->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_LOOKUP: {
		struct fuse_entry_out out = { .nodeid = 2, .entry_valid = 3600, .attr_valid = 3600,
					      .attr = stuck_attributes(2) };

		if (strcmp(body, "file"))
			stuck_reply(fuse, head->unique, -ENOENT, NULL, 0);
		else
			stuck_reply(fuse, head->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_GETATTR: {
		struct fuse_attr_out out = { .attr_valid = 3600, .attr = stuck_attributes(head->nodeid) };

		stuck_reply(fuse, head->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_OPEN:
		stuck_open(fuse, head->unique, plan);
		break;
	case FUSE_READ: {
		struct fuse_read_in *read = body;

		if (read->offset < plan->answered)
			stuck_reply(fuse, head->unique, 0, plan->text,
				    read->size < STUCK_PAGE ? read->size : STUCK_PAGE);
		break;
	}
	case FUSE_FLUSH:
		if (!plan->kept)
			stuck_reply(fuse, head->unique, -ENOSYS, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		stuck_reply(fuse, head->unique, -ENOSYS, NULL, 0);
	}
}

static void stuck_serve(int fuse, const struct stuck_plan *plan)
{
	static char request[FUSE_MIN_READ_BUFFER + 2 * STUCK_LARGEST];
	struct pollfd fds[2] = { { fuse, POLLIN }, { 0, 0 } };

	alarm(STUCK_SECONDS);
	signal(SIGALRM, SIG_DFL);
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			exit(0);
		if (fds[1].revents || fds[0].revents & (POLLERR | POLLHUP))
			exit(0);
		if (!(fds[0].revents & POLLIN))
			continue;
		if (read(fuse, request, sizeof(request)) > 0)
			stuck_answer(fuse, request, plan);
		else if (errno != EINTR && errno != EAGAIN && errno != ENOENT)
			exit(0);
	}
}

static void stuck_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		stuck_fail(path);
	close(fd);
}

/* A mount namespace of one's own, with a user namespace where that takes one. */
static void stuck_namespace(void)
{
	char map[64];
	unsigned uid = getuid(), gid = getgid();

	if (geteuid() != 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
			stuck_fail("unshare");
		/* A program that changed its user belongs to root until it says
		 * otherwise, its files in /proc too. */
		prctl(PR_SET_DUMPABLE, 1);
		snprintf(map, sizeof(map), "0 %u 1", uid);
		stuck_write("/proc/self/uid_map", map);
		stuck_write("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", gid);
		stuck_write("/proc/self/gid_map", map);
	} else if (unshare(CLONE_NEWNS)) {
		stuck_fail("unshare");
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		stuck_fail("private mounts");
}

/* Starts a server and mounts what it serves at STUCK_PLACE, for this process
 * and its children. To be called once, with one thread. The server's pid. */
__attribute__((unused)) static pid_t stuck_mount(const struct stuck_plan *plan)
{
	char options[96];
	int fuse;
	pid_t server;

	stuck_namespace();
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		stuck_fail("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", fuse);
	if (mount("stuck", STUCK_PLACE, "fuse.stuck", MS_NOSUID | MS_NODEV, options))
		stuck_fail("mount");
	server = fork();
	if (server == 0) {
		prctl(PR_SET_NAME, "stuck-server");
		stuck_serve(fuse, plan);
	}
	close(fuse);
	return server;
}

/* A descriptor of the file, after stuck_mount. */
__attribute__((unused)) static int stuck_file(void)
{
	int fd = open(STUCK_PLACE "/file", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		stuck_fail("open");
	return fd;
}

/* `pages` pages of the file from its beginning, each of which asks the server
 * when it is touched for the first time. After stuck_mount. */
__attribute__((unused)) static char *stuck_fuse(size_t pages)
{
	int fd = stuck_file();
	char *at = mmap(NULL, pages * STUCK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED || madvise(at, pages * STUCK_PAGE, MADV_RANDOM))
		stuck_fail("mmap");
	close(fd);
	return at;
}

static void *stuck_touch(void *at)
{
	return (void *)(uintptr_t)*(volatile char *)at;
}

static void *stuck_map(void *file)
{
	mmap(NULL, STUCK_PAGE, PROT_READ, MAP_PRIVATE, (int)(intptr_t)file, 0);
	return NULL;
}

/* Brings the pages of the stack that later calls use. */
__attribute__((unused, noinline)) static void stuck_deepen(void)
{
	volatile char room[1 << 16];

	for (size_t at = 0; at < sizeof(room); at += 4096)
		room[at] = 0;
}

/* Holds the lock of this process's memory map for good: a thread waits for a
 * page that never comes, and another maps the file past the page cache, for
 * which the kernel wants that page out of the way while it holds the lock.
 * Reading /proc/PID/cmdline, environ and mem then sleeps as well (maps too on
 * older kernels), and so does whoever attaches a uprobe to a file that the
 * process maps. To be called instead of stuck_mount; link with -pthread. */
__attribute__((unused)) static pid_t stuck_lock(void)
{
	struct stuck_plan plan = { .direct = 1 };
	pid_t server = stuck_mount(&plan);
	int direct = stuck_file();
	void *volatile heap = malloc(1);
	char *page;
	pthread_t thread;

	/* Before Linux 6.7 whoever touches a page for the first time waits for the lock, too. So
	 * all that the caller has, its heap included, is there from now on, and shared with the
	 * server no more. A user may not be allowed so much. */
	free(heap);
	stuck_deepen();
	mlockall(MCL_CURRENT);
	page = stuck_fuse(1);
	if (pthread_create(&thread, NULL, stuck_touch, page))
		stuck_fail("thread");
	usleep(300000);
	if (pthread_create(&thread, NULL, stuck_map, (void *)(intptr_t)direct))
		stuck_fail("thread");
	usleep(300000);
	return server;
}

/* Makes pages of private memory wait for a userfaultfd that nobody reads, from
 * now on and until the process ends. What is there already goes. */
__attribute__((unused)) static void stuck_guard(void *at, size_t pages)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { { (uintptr_t)at, pages * STUCK_PAGE },
					 UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || madvise(at, pages * STUCK_PAGE, MADV_DONTNEED) ||
	    ioctl(fd, UFFDIO_REGISTER, &range))
		stuck_fail("userfaultfd");
}

/* `pages` new pages that a userfaultfd guards. Needs root, or
 * vm.unprivileged_userfaultfd. */
__attribute__((unused)) static char *stuck_userfault(size_t pages)
{
	char *at = mmap(NULL, pages * STUCK_PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		stuck_fail("mmap");
	stuck_guard(at, pages);
	return at;
}
