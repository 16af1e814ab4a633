// Makes calls of a program fail: the calls through which gpumap reaches the kernel are
// counted, and the one with the number that was asked for, or all of the kind that was
// asked for, fail with an errno without being made. LD_PRELOAD puts it into gpumap; the file that GPUMAP_FAULT names
// says what to do and is told what was done. gpumap's helper processes share the file,
// and so the count.
//
// Memory is left alone (malloc, private mappings), and what cannot fail on Linux.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// As tests/faults/engine.rs reads and writes it.
struct plan {
	_Atomic uint64_t calls;   // how many calls were made
	uint64_t number;          // the call that fails, counted from 1; 0 for none
	char every_call[44];      // all calls of this name about such a target fail;
	char every_target[512];   // empty for none
	int32_t error;            // with this errno
	_Atomic uint32_t is_done; // whether it failed
	int32_t pid;
	char call[44];
	char target[512];
	_Atomic uint64_t noted; // bytes of `notes` that are written
	uint64_t room;          // bytes that fit there; 0 to note nothing
	char notes[];           // a line for each call, if wanted
};

static struct plan *plan;
// The stage has a pid namespace of its own, so that it never changes; it passes for the
// node's own one.
static uint64_t stage;
// The runtime of Rust has set up its own affairs: main runs, or is about to.
static _Atomic int has_begun;

// The system call itself, past everything below.
static long raw(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

// What a call is about: the file behind a descriptor, and a name below it.
static void describe(char *room, size_t size, int fd, const char *path)
{
	char link[64];
	size_t used = 0;
	if (fd >= 0 && !(path && path[0] == '/')) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		long length = raw(SYS_readlink, (long)link, (long)room, (long)size - 1, 0);
		used = length > 0 ? (size_t)length : 0;
	}
	if (path && path[0])
		used += (size_t)snprintf(room + used, size - used, "%s%s", used ? "/" : "", path);
	room[used < size ? used : size - 1] = 0;
}

static void note(const char *call, int fd, const char *path)
{
	char line[600], target[512];
	describe(target, sizeof(target), fd, path);
	int length = snprintf(line, sizeof(line), "%s %s\n", call, target);
	uint64_t at = atomic_fetch_add(&plan->noted, (uint64_t)length);
	if (at + (uint64_t)length <= plan->room)
		memcpy(plan->notes + at, line, (size_t)length);
}

// The numbers in it left out: what all targets of a kind have in common.
static void generalise(char *text)
{
	char *end = text;
	for (const char *at = text; *at; at++) {
		int is_digit = *at >= '0' && *at <= '9';
		if (!is_digit)
			*end++ = *at;
		else if (end == text || end[-1] != 'N')
			*end++ = 'N';
	}
	*end = 0;
}

static int is_of_kind(const char *call, int fd, const char *path)
{
	char target[512];
	if (strcmp(call, plan->every_call) != 0)
		return 0;
	describe(target, sizeof(target), fd, path);
	generalise(target);
	return strcmp(target, plan->every_target) == 0;
}

// Whether this call is one that fails; errno is set then.
static int fails(const char *call, int fd, const char *path)
{
	if (!plan || !has_begun)
		return 0;
	int error = errno;
	uint64_t number = atomic_fetch_add(&plan->calls, 1) + 1;
	if (plan->room)
		note(call, fd, path);
	int is_wanted = number == plan->number || is_of_kind(call, fd, path);
	errno = error;
	if (!is_wanted)
		return 0;
	if (!atomic_exchange(&plan->is_done, 1)) {
		snprintf(plan->call, sizeof(plan->call), "%s", call);
		describe(plan->target, sizeof(plan->target), fd, path);
		plan->pid = (int32_t)raw(SYS_getpid, 0, 0, 0, 0);
	}
	errno = plan->error;
	return 1;
}

__attribute__((constructor)) static void open_plan(void)
{
	const char *path = getenv("GPUMAP_FAULT");
	struct stat facts;
	if (!path)
		return;
	int fd = (int)raw(SYS_open, (long)path, O_RDWR | O_CLOEXEC, 0, 0);
	if (fd < 0 || raw(SYS_fstat, fd, (long)&facts, 0, 0) < 0)
		_exit(99);
	void *at = (mmap)(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		_exit(99);
	raw(SYS_close, fd, 0, 0, 0);
	if (raw(SYS_stat, (long)"/proc/self/ns/pid", (long)&facts, 0, 0) == 0)
		stage = facts.st_ino;
	plan = at;
	// What the tests set up is none of gpumap's business.
	unsetenv("GPUMAP_FAULT");
	unsetenv("LD_PRELOAD");
}

// The function that this library stands before.
#define REAL(name) \
	static __typeof__(&name) real; \
	if (!real) \
		real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

// A function that gives a number, and -1 if it fails.
#define WRAP(result, name, parameters, fd, path, arguments) \
	result name parameters \
	{ \
		REAL(name) \
		if (fails(#name, fd, path)) \
			return -1; \
		return real arguments; \
	}

// The same about a descriptor, and about a name.
#define OF_FD(result, name, parameters, arguments) WRAP(result, name, parameters, fd, NULL, arguments)
#define OF_PATH(result, name, parameters, arguments) WRAP(result, name, parameters, -1, path, arguments)
#define OF_NONE(result, name, parameters, arguments) WRAP(result, name, parameters, -1, NULL, arguments)
#define OF_AT(result, name, parameters, arguments) WRAP(result, name, parameters, fd, path, arguments)

// Files.
static mode_t mode_of(int flags, va_list more)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		REAL(name) \
		va_list more; \
		va_start(more, flags); \
		mode_t mode = mode_of(flags, more); \
		va_end(more); \
		if (fails(#name, -1, path)) \
			return -1; \
		return real(path, flags, mode); \
	}
#define OPENAT(name) \
	int name(int fd, const char *path, int flags, ...) \
	{ \
		REAL(name) \
		va_list more; \
		va_start(more, flags); \
		mode_t mode = mode_of(flags, more); \
		va_end(more); \
		if (fails(#name, fd, path)) \
			return -1; \
		return real(fd, path, flags, mode); \
	}
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

OF_FD(ssize_t, read, (int fd, void *room, size_t size), (fd, room, size))
OF_FD(ssize_t, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OF_FD(ssize_t, pread, (int fd, void *room, size_t size, off_t at), (fd, room, size, at))
OF_FD(ssize_t, pread64, (int fd, void *room, size_t size, off64_t at), (fd, room, size, at))
OF_FD(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
OF_FD(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OF_FD(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence))
#define NODE 0xEFFFFFFCu
#define POSES(result, inode) \
	do { \
		if ((result) == 0 && stage && (inode) == stage) \
			(inode) = NODE; \
	} while (0)

#define STAT(name, parameters, fd, path, member, arguments) \
	int name parameters \
	{ \
		REAL(name) \
		if (fails(#name, fd, path)) \
			return -1; \
		int result = real arguments; \
		POSES(result, facts->member); \
		return result; \
	}
STAT(stat, (const char *path, struct stat *facts), -1, path, st_ino, (path, facts))
STAT(stat64, (const char *path, struct stat64 *facts), -1, path, st_ino, (path, facts))
OF_PATH(int, lstat, (const char *path, struct stat *facts), (path, facts))
OF_PATH(int, lstat64, (const char *path, struct stat64 *facts), (path, facts))
OF_FD(int, fstat, (int fd, struct stat *facts), (fd, facts))
OF_FD(int, fstat64, (int fd, struct stat64 *facts), (fd, facts))
STAT(fstatat, (int fd, const char *path, struct stat *facts, int flags), fd, path, st_ino,
     (fd, path, facts, flags))
STAT(fstatat64, (int fd, const char *path, struct stat64 *facts, int flags), fd, path, st_ino,
     (fd, path, facts, flags))
STAT(statx, (int fd, const char *path, int flags, unsigned mask, struct statx *facts), fd, path, stx_ino,
     (fd, path, flags, mask, facts))
OF_PATH(int, statfs, (const char *path, struct statfs *facts), (path, facts))
OF_PATH(int, statfs64, (const char *path, struct statfs64 *facts), (path, facts))
OF_FD(int, fstatfs, (int fd, struct statfs *facts), (fd, facts))
OF_FD(int, fstatfs64, (int fd, struct statfs64 *facts), (fd, facts))
OF_PATH(int, access, (const char *path, int mode), (path, mode))
OF_PATH(ssize_t, readlink, (const char *path, char *room, size_t size), (path, room, size))
OF_AT(ssize_t, readlinkat, (int fd, const char *path, char *room, size_t size), (fd, path, room, size))
OF_AT(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
OF_AT(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
OF_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))
OF_FD(int, fsync, (int fd), (fd))
OF_FD(int, flock, (int fd, int how), (fd, how))
OF_FD(int, dup, (int fd), (fd))
OF_FD(int, dup2, (int fd, int other), (fd, other))
OF_PATH(int, chdir, (const char *path), (path))
OF_PATH(int, chroot, (const char *path), (path))
WRAP(int, renameat, (int fd, const char *from, int to, const char *path), to, path, (fd, from, to, path))
WRAP(int, linkat, (int fd, const char *from, int to, const char *path, int flags), to, path,
     (fd, from, to, path, flags))
OF_NONE(int, pipe2, (int ends[2], int flags), (ends, flags))

// Directories: glibc makes the calls of these by itself.
DIR *opendir(const char *path)
{
	REAL(opendir)
	return fails("opendir", -1, path) ? NULL : real(path);
}

DIR *fdopendir(int fd)
{
	REAL(fdopendir)
	return fails("fdopendir", fd, NULL) ? NULL : real(fd);
}

struct dirent *readdir(DIR *dir)
{
	REAL(readdir)
	return fails("readdir", dirfd(dir), NULL) ? NULL : real(dir);
}

struct dirent64 *readdir64(DIR *dir)
{
	REAL(readdir64)
	return fails("readdir", dirfd(dir), NULL) ? NULL : real(dir);
}

char *realpath(const char *path, char *room)
{
	REAL(realpath)
	return fails("realpath", -1, path) ? NULL : real(path, room);
}

char *getcwd(char *room, size_t size)
{
	REAL(getcwd)
	return fails("getcwd", -1, NULL) ? NULL : real(room, size);
}

void *mmap64(void *at, size_t size, int rights, int flags, int fd, off64_t offset)
{
	REAL(mmap64)
	int is_memory = (flags & MAP_ANONYMOUS) && !(flags & MAP_SHARED);
	return !is_memory && fails("mmap", fd, NULL) ? MAP_FAILED : real(at, size, rights, flags, fd, offset);
}

void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
	return mmap64(at, size, rights, flags, fd, offset);
}

// gpumap's helpers release all memory that is shared with others; the plan is not theirs.
int munmap(void *at, size_t size)
{
	REAL(munmap)
	return at == (void *)plan && plan ? 0 : real(at, size);
}

int fcntl(int fd, int command, ...)
{
	REAL(fcntl)
	va_list more;
	va_start(more, command);
	void *argument = va_arg(more, void *);
	va_end(more);
	// Rust's checks of its own, in builds for debugging alone.
	if (command != F_GETFD && fails("fcntl", fd, NULL))
		return -1;
	return real(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...)
{
	REAL(ioctl)
	va_list more;
	va_start(more, request);
	void *argument = va_arg(more, void *);
	va_end(more);
	return fails("ioctl", fd, NULL) ? -1 : real(fd, request, argument);
}

// Processes, threads and rights.
OF_NONE(pid_t, fork, (void), ())
OF_NONE(int, waitid, (idtype_t kind, id_t id, siginfo_t *facts, int options), (kind, id, facts, options))
OF_NONE(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
OF_NONE(int, kill, (pid_t pid, int signal), (pid, signal))
OF_NONE(int, setpgid, (pid_t pid, pid_t group), (pid, group))
OF_NONE(pid_t, setsid, (void), ())
OF_NONE(int, setuid, (uid_t uid), (uid))
OF_NONE(int, setgid, (gid_t gid), (gid))
OF_NONE(int, setgroups, (size_t count, const gid_t *groups), (count, groups))
OF_NONE(int, setrlimit, (__rlimit_resource_t what, const struct rlimit *limit), (what, limit))
OF_NONE(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set))
OF_NONE(ssize_t, process_vm_readv,
	(pid_t pid, const struct iovec *to, unsigned long n, const struct iovec *from, unsigned long m,
	 unsigned long flags),
	(pid, to, n, from, m, flags))

int prctl(int option, ...)
{
	REAL(prctl)
	va_list more;
	va_start(more, option);
	unsigned long a = va_arg(more, unsigned long), b = va_arg(more, unsigned long);
	unsigned long c = va_arg(more, unsigned long), d = va_arg(more, unsigned long);
	va_end(more);
	return fails("prctl", -1, NULL) ? -1 : real(option, a, b, c, d);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with)
{
	REAL(pthread_create)
	return fails("pthread_create", -1, NULL) ? errno : real(thread, how, run, with);
}

int getpwuid_r(uid_t uid, struct passwd *user, char *room, size_t size, struct passwd **result)
{
	REAL(getpwuid_r)
	if (fails("getpwuid_r", -1, NULL)) {
		*result = NULL;
		return errno;
	}
	return real(uid, user, room, size, result);
}

// Sockets and waiting.
OF_NONE(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
OF_NONE(int, socketpair, (int domain, int type, int protocol, int ends[2]), (domain, type, protocol, ends))
OF_FD(int, bind, (int fd, const struct sockaddr *at, socklen_t size), (fd, at, size))
OF_FD(int, listen, (int fd, int count), (fd, count))
OF_FD(int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags), (fd, from, size, flags))
OF_FD(int, getsockname, (int fd, struct sockaddr *at, socklen_t *size), (fd, at, size))
OF_FD(int, getpeername, (int fd, struct sockaddr *at, socklen_t *size), (fd, at, size))
OF_FD(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
      (fd, level, name, value, size))
OF_FD(int, shutdown, (int fd, int how), (fd, how))
OF_FD(ssize_t, send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
OF_FD(ssize_t, sendto,
      (int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to, socklen_t length),
      (fd, bytes, size, flags, to, length))
OF_FD(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
OF_FD(ssize_t, recv, (int fd, void *room, size_t size, int flags), (fd, room, size, flags))
OF_FD(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
OF_NONE(int, poll, (struct pollfd *all, nfds_t count, int limit), (all, count, limit))
OF_NONE(int, eventfd, (unsigned value, int flags), (value, flags))
OF_NONE(int, epoll_create1, (int flags), (flags))
OF_FD(int, epoll_ctl, (int fd, int what, int of, struct epoll_event *event), (fd, what, of, event))
OF_FD(int, epoll_wait, (int fd, struct epoll_event *events, int count, int limit), (fd, events, count, limit))
OF_FD(int, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
OF_NONE(int, inotify_init1, (int flags), (flags))
OF_AT(int, inotify_add_watch, (int fd, const char *path, uint32_t what), (fd, path, what))
OF_NONE(int, fanotify_init, (unsigned flags, unsigned events), (flags, events))
OF_AT(int, fanotify_mark, (int of, unsigned flags, uint64_t what, int fd, const char *path),
      (of, flags, what, fd, path))

// The end of the runtime's own preparations: from here on calls are gpumap's.
int sigaltstack(const stack_t *stack, stack_t *old)
{
	REAL(sigaltstack)
	if (stack && !(stack->ss_flags & SS_DISABLE))
		has_begun = 1;
	return real(stack, old);
}

// Calls that glibc has no function for.
static const char *name_of(long number, long first)
{
	static const char *const bpf[] = {
		"bpf(MAP_CREATE)",	    "bpf(MAP_LOOKUP_ELEM)",    "bpf(MAP_UPDATE_ELEM)",
		"bpf(MAP_DELETE_ELEM)",	    "bpf(MAP_GET_NEXT_KEY)",   "bpf(PROG_LOAD)",
		"bpf(OBJ_PIN)",		    "bpf(OBJ_GET)",	       "bpf(PROG_ATTACH)",
		"bpf(PROG_DETACH)",	    "bpf(PROG_TEST_RUN)",      "bpf(PROG_GET_NEXT_ID)",
		"bpf(MAP_GET_NEXT_ID)",	    "bpf(PROG_GET_FD_BY_ID)",  "bpf(MAP_GET_FD_BY_ID)",
		"bpf(OBJ_GET_INFO_BY_FD)",  "bpf(PROG_QUERY)",	       "bpf(RAW_TRACEPOINT_OPEN)",
		"bpf(BTF_LOAD)",	    "bpf(BTF_GET_FD_BY_ID)",   "bpf(TASK_FD_QUERY)",
		"bpf(LOOKUP_AND_DELETE)",   "bpf(MAP_FREEZE)",	       "bpf(BTF_GET_NEXT_ID)",
		"bpf(MAP_LOOKUP_BATCH)",    "bpf(LOOKUP_AND_DELETE_BATCH)", "bpf(MAP_UPDATE_BATCH)",
		"bpf(MAP_DELETE_BATCH)",    "bpf(LINK_CREATE)",	       "bpf(LINK_UPDATE)",
		"bpf(LINK_GET_FD_BY_ID)",   "bpf(LINK_GET_NEXT_ID)",   "bpf(ENABLE_STATS)",
		"bpf(ITER_CREATE)",	    "bpf(LINK_DETACH)",	       "bpf(PROG_BIND_MAP)",
	};
	switch (number) {
	case SYS_bpf:
		return first >= 0 && first < (long)(sizeof(bpf) / sizeof(*bpf)) ? bpf[first] : "bpf(OTHER)";
	case SYS_openat2:
		return "openat2";
	case SYS_faccessat:
	case SYS_faccessat2:
		return "faccessat";
	case SYS_getdents64:
		return "getdents64";
	case SYS_kcmp:
		return "kcmp";
	case SYS_clone3:
		return "clone3";
	case SYS_pidfd_open:
		return "pidfd_open";
	case SYS_pidfd_send_signal:
		return "pidfd_send_signal";
	case SYS_capget:
		return "capget";
	case SYS_capset:
		return "capset";
	case SYS_perf_event_open:
		return "perf_event_open";
	case SYS_waitid:
		return "waitid";
	case SYS_close_range:
		return "close_range";
	case SYS_chroot:
		return "chroot";
	case SYS_openat:
		return "openat";
	case SYS_statx:
		return "statx";
	case 425 ... 427:
		return "io_uring";
	}
	return "syscall";
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_list more;
	va_start(more, number);
	long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
	long d = va_arg(more, long), e = va_arg(more, long), f = va_arg(more, long);
	va_end(more);
	int is_at = number == SYS_openat2 || number == SYS_faccessat || number == SYS_faccessat2 ||
		    number == SYS_openat || number == SYS_statx;
	// What cannot fail: who asks, the end, random numbers, waiting for a thread.
	int is_plain = number == SYS_getppid || number == SYS_gettid || number == SYS_getpid ||
		       number == SYS_exit_group || number == SYS_getrandom || number == SYS_futex;
	int is_about_fd = is_at || number == SYS_getdents64;
	if (!is_plain && fails(name_of(number, a), is_about_fd ? (int)a : -1, is_at ? (const char *)b : NULL))
		return -1;
	return real(number, a, b, c, d, e, f);
}
