/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * activity_peer PROGRAM FILE OFFSET [RING]: attaches a pinned program (bpftool prog
 * loadall) to an offset of a file, as a uprobe of perf_event_open(2), in all processes.
 * Reads a pinned ring as its records come. Says "ready", and at SIGTERM how many records
 * it read and the processor time that it took, in seconds.
 *
 * With session:1 for PROGRAM: a session (Linux 6.13) that does nothing at the entry; with
 * session:0 one that does nothing at entry and return.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE (1ul << 20)

static volatile sig_atomic_t over;
static void end(int signal) { (void)signal; over = 1; }

static int pinned(const char *path)
{
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.pathname = (uintptr_t)path;
	return syscall(SYS_bpf, BPF_OBJ_GET, &attributes, sizeof(attributes));
}

static int uprobe_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int type = -1;

	if (!file || fscanf(file, "%d", &type) != 1)
		return -1;
	fclose(file);
	return type;
}

/* BPF_TRACE_UPROBE_SESSION, and the part of union bpf_attr that attaches one. */
#define SESSION 57
struct session {
	uint32_t program, target, type, flags;
	uint64_t file, offsets, counters, cookies;
	uint32_t count, probe_flags, pid, pad;
};

static int session(int returns, const char *file, uint64_t offset)
{
	struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = returns },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct session link;
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.prog_type = BPF_PROG_TYPE_KPROBE;
	attributes.expected_attach_type = SESSION;
	attributes.insn_cnt = 2;
	attributes.insns = (uintptr_t)code;
	attributes.license = (uintptr_t)"GPL";
	memset(&link, 0, sizeof(link));
	link.program = syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));
	link.type = SESSION;
	link.file = (uintptr_t)file;
	link.offsets = (uintptr_t)&offset;
	link.count = 1;
	return (int)link.program < 0 ? -1 : syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof(link));
}

static int wait_for_end(void)
{
	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (!over)
		poll(NULL, 0, 500);
	return 0;
}

static long read_ring(char *consumer, char *producer)
{
	uint64_t *tail = (uint64_t *)consumer, *head = (uint64_t *)producer;
	uint64_t at = *tail, to = __atomic_load_n(head, __ATOMIC_ACQUIRE);
	static volatile uint64_t seen;
	long records = 0;

	while (at < to) {
		uint32_t *record = (uint32_t *)(producer + 4096 + at % SIZE);
		uint32_t length = __atomic_load_n(record, __ATOMIC_ACQUIRE);

		if (length & BPF_RINGBUF_BUSY_BIT)
			break;
		seen += record[2];
		records++;
		at += ((length & ~BPF_RINGBUF_DISCARD_BIT) + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		__atomic_store_n(tail, at, __ATOMIC_RELEASE);
	}
	return records;
}

int main(int count, char **words)
{
	struct perf_event_attr attributes;
	struct rusage usage;
	struct pollfd wait = { -1, POLLIN, 0 };
	char *consumer = NULL, *producer = NULL;
	long records = 0;
	int program, event;

	if (count < 4)
		return 2;
	if (!strncmp(words[1], "session:", 8)) {
		if (session(atoi(words[1] + 8), words[2], strtoull(words[3], NULL, 0)) >= 0)
			return wait_for_end();
		perror("activity_peer");
		return 1;
	}
	program = pinned(words[1]);
	memset(&attributes, 0, sizeof(attributes));
	attributes.size = sizeof(attributes);
	attributes.type = uprobe_type();
	attributes.config1 = (uintptr_t)words[2];
	attributes.config2 = strtoull(words[3], NULL, 0);
	event = syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (program < 0 || event < 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, program) || ioctl(event, PERF_EVENT_IOC_ENABLE, 0)) {
		perror("activity_peer");
		return 1;
	}
	if (count > 4) {
		wait.fd = pinned(words[4]);
		consumer = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, wait.fd, 0);
		producer = mmap(NULL, 4096 + 2 * SIZE, PROT_READ, MAP_SHARED, wait.fd, 4096);
		if (consumer == MAP_FAILED || producer == MAP_FAILED) {
			perror("activity_peer");
			return 1;
		}
	}
	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (!over) {
		poll(&wait, 1, 500);
		if (producer)
			records += read_ring(consumer, producer);
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld records, %ld.%06ld s\n", records, usage.ru_utime.tv_sec + usage.ru_stime.tv_sec,
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	return 0;
}
