/* The least that a scan of a cgroup tree can cost: a bare loop over the same
 * system calls as `gpumap cgroup -r`, without keeping or printing anything.
 *
 *   tree make DIR OUTER INNER PROGRAMS   build DIR/N/M with as many programs
 *   tree crowd DIR OUTER INNER PROCESSES processes in them, until it is killed
 *   tree scan DIR                        walk it; prints counts and milliseconds
 *   tree node DIR                        the same, and what gpumap reads of each process there
 *   tree clean DIR                       remove it
 *
 * Programs are attached (ALLOW_MULTI) to the INNER directories in turn; each
 * denies one minor of its own, so that all differ. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A full-size attribute whatever the headers are (CVE-2026-74371). */
union attr {
	union bpf_attr bpf;
	char room[256];
};

static long cgroups, queries, ids, pids, descriptors;
static int with_processes;
static unsigned char seen[1 << 20];

static int bpf(int command, union attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof *attr);
}

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static void info(uint32_t id)
{
	static char code[1 << 16];
	union attr attr = { 0 };
	struct bpf_prog_info info = { .xlated_prog_insns = (uintptr_t)code, .xlated_prog_len = sizeof code };

	attr.bpf.prog_id = id;
	int fd = bpf(BPF_PROG_GET_FD_BY_ID, &attr);
	if (fd < 0)
		return;
	memset(&attr, 0, sizeof attr);
	attr.bpf.info.bpf_fd = fd;
	attr.bpf.info.info_len = sizeof info;
	attr.bpf.info.info = (uintptr_t)&info;
	bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
	close(fd);
}

static void query(int fd, unsigned flags)
{
	uint32_t list[256];
	union attr attr = { 0 };

	attr.bpf.query.target_fd = fd;
	attr.bpf.query.attach_type = BPF_CGROUP_DEVICE;
	attr.bpf.query.query_flags = flags;
	attr.bpf.query.prog_ids = (uintptr_t)list;
	attr.bpf.query.prog_cnt = 256;
	if (bpf(BPF_PROG_QUERY, &attr))
		fail("BPF_PROG_QUERY");
	queries++;
	ids += attr.bpf.query.prog_cnt;
	for (uint32_t i = 0; i < attr.bpf.query.prog_cnt; i++)
		if (list[i] < sizeof seen && !seen[list[i]]++)
			info(list[i]);
}

static void file(int dir, const char *name)
{
	char text[65536];
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	while (read(fd, text, sizeof text) > 0)
		;
	close(fd);
}

/* Three pages of its memory, where it begins to run its stack. */
static void memory(int dir)
{
	static char text[4096];
	unsigned long stack = 0;
	int fd = openat(dir, "stat", O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, text, sizeof text - 1);

	close(fd);
	text[got > 0 ? got : 0] = 0;
	char *word = strrchr(text, ')');
	/* startstack is field 28, and this the end of field 2. */
	for (int field = 2; word && field < 28; field++)
		word = strchr(word + 1, ' ');
	if (word)
		stack = strtoul(word + 1, NULL, 10);
	fd = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		if (pread(fd, text, 256, stack & ~4095ul) < 0)
			break;
	close(fd);
}

static void open_files(int dir)
{
	char buffer[32768];
	struct stat stat;
	int list = openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (long got; (got = syscall(SYS_getdents64, list, buffer, sizeof buffer)) > 0;) {
		for (long at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(buffer + at);

			at += entry->d_reclen;
			if (entry->d_name[0] != '.' && !fstatat(list, entry->d_name, &stat, 0))
				descriptors++;
		}
	}
	close(list);
}

static void process(long pid)
{
	char name[32];

	snprintf(name, sizeof name, "/proc/%ld", pid);
	int dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return;
	memory(dir);
	file(dir, "cgroup");
	file(dir, "environ");
	file(dir, "maps");
	open_files(dir);
	close(dir);
}

static void procs(int dir)
{
	char text[4096];
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);

	long pid = 0;
	for (ssize_t got; (got = read(fd, text, sizeof text)) > 0;) {
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] != '\n') {
				pid = pid * 10 + text[i] - '0';
				continue;
			}
			pids++;
			if (with_processes)
				process(pid);
			pid = 0;
		}
	}
	close(fd);
}

static void visit(int fd);

static void below(int fd)
{
	char buffer[32768];
	int list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (long got; (got = syscall(SYS_getdents64, list, buffer, sizeof buffer)) > 0;) {
		for (long at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(buffer + at);

			at += entry->d_reclen;
			if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
				continue;
			int child = openat(fd, entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
			if (child < 0)
				continue;
			visit(child);
			close(child);
		}
	}
	close(list);
}

static void visit(int fd)
{
	struct stat stat;

	if (fstat(fd, &stat))
		fail("fstat");
	cgroups++;
	query(fd, BPF_F_QUERY_EFFECTIVE);
	query(fd, 0);
	procs(fd);
	if (stat.st_nlink > 2)
		below(fd);
}

static void scan(const char *path)
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	visit(fd);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.3f ms: %ld cgroups, %ld queries, %ld ids, %ld pids, %ld descriptors\n",
	       (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6, cgroups, queries, ids, pids,
	       descriptors);
}

static void deny(const char *path, int minor)
{
	struct bpf_insn code[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 1, .off = 8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 3, .off = 1, .imm = minor },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union attr attr = { 0 };

	attr.bpf.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.bpf.insns = (uintptr_t)code;
	attr.bpf.insn_cnt = sizeof code / sizeof *code;
	attr.bpf.license = (uintptr_t)"GPL";
	int program = bpf(BPF_PROG_LOAD, &attr), cgroup = open(path, O_RDONLY | O_DIRECTORY);
	if (program < 0)
		fail("BPF_PROG_LOAD");
	memset(&attr, 0, sizeof attr);
	attr.bpf.target_fd = cgroup;
	attr.bpf.attach_bpf_fd = program;
	attr.bpf.attach_type = BPF_CGROUP_DEVICE;
	attr.bpf.attach_flags = BPF_F_ALLOW_MULTI;
	if (bpf(BPF_PROG_ATTACH, &attr))
		fail("BPF_PROG_ATTACH");
	close(program);
	close(cgroup);
}

static void make(const char *top, int outer, int inner, int programs)
{
	char path[4096];
	int made = 0;

	if (mkdir(top, 0755))
		fail(top);
	for (int i = 0; i < outer; i++) {
		snprintf(path, sizeof path, "%s/%d", top, i);
		if (mkdir(path, 0755))
			fail(path);
		for (int j = 0; j < inner; j++) {
			snprintf(path, sizeof path, "%s/%d/%d", top, i, j);
			if (mkdir(path, 0755))
				fail(path);
			if (j * outer + i < programs)
				deny(path, made++);
		}
	}
}

static void clean(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			clean(fd, entry->d_name);
	if (dir)
		closedir(dir);
	if (unlinkat(at, name, AT_REMOVEDIR))
		perror(name);
}

/* A program with the environment and the descriptors of an ordinary one, in a
 * cgroup, until its parent ends. */
static void member(const char *cgroup)
{
	char path[4200], *argv[] = { "sleep", "inf", NULL };
	char variables[40][64], *environment[41];

	snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
	int procs = open(path, O_WRONLY | O_CLOEXEC);
	if (procs < 0 || write(procs, "0", 1) != 1)
		fail(path);
	for (int i = 0; i < 39; i++) {
		snprintf(variables[i], sizeof *variables, "SOME_ORDINARY_VARIABLE_%d=/with/a/value/of/some/length", i);
		environment[i] = variables[i];
	}
	environment[39] = "CUDA_VISIBLE_DEVICES=0,1";
	environment[40] = NULL;
	for (int i = 0; i < 12; i++)
		open(i % 4 ? "/etc/passwd" : "/dev/null", O_RDONLY);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execve("/bin/sleep", argv, environment);
	fail("/bin/sleep");
}

/* A process of this name in a cgroup, until its parent ends. */
static void idle(const char *cgroup, const char *name)
{
	char path[4200];

	if (mkdir(cgroup, 0755))
		fail(cgroup);
	if (fork())
		return;
	snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
	int procs = open(path, O_WRONLY | O_CLOEXEC);
	if (procs < 0 || write(procs, "0", 1) != 1)
		fail(path);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* Processes all over the tree, eight in a job's task, and a slurmd; until killed. */
static void crowd(const char *top, int outer, int inner, int processes)
{
	char path[4096];
	const char *job[] = { "system.slice", "slurmstepd.scope", "job_4711", "step_0", "user", "task_0" };
	int length = snprintf(path, sizeof path, "%s", top);

	for (size_t i = 0; i < sizeof job / sizeof *job; i++) {
		length += snprintf(path + length, sizeof path - length, "/%s", job[i]);
		if (mkdir(path, 0755))
			fail(path);
	}
	char daemon[4096];
	snprintf(daemon, sizeof daemon, "%s/system.slice/slurmd.service", top);
	idle(daemon, "slurmd");
	for (int i = 0; i < processes; i++) {
		if (i >= 8)
			snprintf(path, sizeof path, "%s/%d/%d", top, i % outer, i / outer % inner);
		pid_t pid = fork();
		if (pid == 0)
			member(path);
		if (i == 0)
			printf("%d\n", pid), fflush(stdout);
	}
	printf("ready\n"), fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "make"))
		make(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
	else if (argc == 3 && !strcmp(argv[1], "scan"))
		scan(argv[2]);
	else if (argc == 6 && !strcmp(argv[1], "crowd"))
		crowd(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
	else if (argc == 3 && !strcmp(argv[1], "node"))
		with_processes = 1, scan(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "clean"))
		clean(AT_FDCWD, argv[2]);
	else
		return fputs("usage: tree make DIR OUTER INNER PROGRAMS | crowd DIR OUTER INNER PROCESSES | scan DIR | node DIR | clean DIR\n", stderr), 2;
	return 0;
}
