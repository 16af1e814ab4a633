/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Devices that the kernel refuses, summed. Needs Linux 5.8 (ring buffer) with BTF.
 *
 * All who ask for a device come through one function: open(2), access(2) and
 * execve(2) by inode_permission, mknod(2) by vfs_mknod, the drivers of AMD's GPUs
 * by themselves. It asks the programs of the cgroup and then the controller of
 * cgroup v1, and it is called from other files, so that no compiler puts it into
 * its callers. A program at its return sees the kernel's own answer; where that is
 * 0, it returns at once.
 *
 * Where the kernel has no trampolines for that (arm64 before Linux 6.4), a pair of
 * probes does the same: what was asked is gone at the return, so the first one
 * keeps it.
 *
 * Refusals are summed here, in two maps by turns: while user space reads one, the
 * other is written. So a process that tries again and again costs one entry, and
 * nothing wakes gpumap but an entry that is new.
 */
#include "denials.h"
#include "losses.h"
#include "scope.h"
#include "task.h"

/* Entries of a turn, which user space makes last about a second. Most are for
 * everybody, first come, first served; when these are used up, each of SHARES
 * accounts may still add its share. */
#define ENTRIES 4096
#define COMMON (ENTRIES / 4 * 3)
#define SHARES 32
#define SHARE ((ENTRIES - COMMON) / SHARES)

#define SUMS                                       \
	__uint(type, BPF_MAP_TYPE_HASH);           \
	__uint(max_entries, ENTRIES);              \
	__type(key, struct denial_key);            \
	__type(value, struct denial)
struct { SUMS; } even SEC(".maps");
struct { SUMS; } odd SEC(".maps");

/* Keys that are new in a turn: user space looks where the process is while it is
 * there. The ring has room for all entries of a turn; if it is full all the same,
 * that look is missed and the sum is not. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} fresh SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct denial_turn);
} turn SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct denial_major);
	__type(value, __u32);
} majors SEC(".maps");

/* What an account noted in a turn. */
struct share {
	__u64 number;
	__u64 used;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct share);
} shares SEC(".maps");

/* Whether an account may add an entry in this turn. */
static __always_inline int admitted(struct denial_turn *now, __u32 account)
{
	__u64 noted = *(volatile __u64 *)&now->noted;

	__sync_fetch_and_add(&now->noted, 1);
	if (noted < COMMON)
		return 1;
	struct share *share = bpf_map_lookup_elem(&shares, &account);

	if (!share) {
		struct share first = { .number = now->number, .used = 1 };

		return bpf_map_update_elem(&shares, &account, &first, BPF_ANY) == 0;
	}
	if (share->number != now->number) {
		share->number = now->number;
		share->used = 0;
	}
	if (share->used >= SHARE)
		return 0;
	__sync_fetch_and_add(&share->used, 1);
	return 1;
}

/* Adds one more to an entry that is there. */
static __always_inline int again(void *sums, const struct denial_key *key, __u64 at)
{
	struct denial *sum = bpf_map_lookup_elem(sums, key);

	if (!sum)
		return 0;
	__sync_fetch_and_add(&sum->count, 1);
	sum->last = at;
	return 1;
}

static __always_inline void add(void *sums, struct denial_turn *now, struct task_struct *task,
				const struct denial_key *key)
{
	__u64 at = bpf_ktime_get_boot_ns();

	if (again(sums, key, at))
		return;
	if (!admitted(now, key->account)) {
		count_lost(key->account);
		return;
	}
	struct cred *cred = read_field(task, cred);
	struct denial first = { .first = at, .last = at, .count = 1 };

	first.uid = read_field(cred, euid.val);
	struct task_struct *leader = read_field(task, group_leader);

	bpf_probe_read_kernel(first.comm, DENIAL_COMM, __builtin_preserve_access_index(&leader->comm));
	if (bpf_map_update_elem(sums, key, &first, BPF_NOEXIST)) {
		/* Another thread was faster, or there is no room. */
		if (!again(sums, key, at))
			count_lost(key->account);
		return;
	}
	bpf_ringbuf_output(&fresh, (void *)key, sizeof(*key), 0);
}

/* Whether this device counts. */
static __always_inline int is_wanted(struct denial_turn *now, __u32 type, __u32 major)
{
	struct denial_major wanted = { .type = type, .major = major };

	return now->everything || bpf_map_lookup_elem(&majors, &wanted);
}

static __always_inline void refused(__u32 type, __u32 major, __u32 minor, __u32 access, int error)
{
	__u32 zero = 0;
	struct denial_turn *now = bpf_map_lookup_elem(&turn, &zero);

	type &= 0xffff;
	if (!now || !is_wanted(now, type, major) || !in_scope())
		return;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct denial_key key = {
		.start = start_of(task),
		.cgroup = cgroup_of(task),
		.pid = bpf_get_current_pid_tgid() >> 32,
		.account = account_of(task),
		.major = major,
		.minor = minor,
		.type = type,
		.access = access,
		.error = error,
	};

	if (now->number & 1)
		add(&odd, now, task, &key);
	else
		add(&even, now, task, &key);
}

/* devcgroup_check_permission(type, major, minor, access), and what it returned. */
SEC("fexit/devcgroup_check_permission") int on_answer(__u64 *ctx)
{
	int error = ctx[4];

	if (error)
		refused(ctx[0], ctx[1], ctx[2], ctx[3], error);
	return 0;
}

/* What a thread asks for, while it is asked. */
struct question {
	__u32 type, major, minor, access;
};
/* A return that is missed leaves its question behind: the oldest go. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct question);
} questions SEC(".maps");

SEC("kprobe/devcgroup_check_permission") int enter_check(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct question asked = {
		.type = argument(ctx, 0),
		.major = argument(ctx, 1),
		.minor = argument(ctx, 2),
		.access = argument(ctx, 3),
	};

	bpf_map_update_elem(&questions, &id, &asked, BPF_ANY);
	return 0;
}

SEC("kretprobe/devcgroup_check_permission") int leave_check(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	int error = returned(ctx);

	if (error) {
		struct question *asked = bpf_map_lookup_elem(&questions, &id);

		if (asked)
			refused(asked->type, asked->major, asked->minor, asked->access, error);
		else if (in_scope())
			/* It had no room, or the first probe was left out: of which device
			 * this was, nobody knows. */
			count_lost(account_of((struct task_struct *)bpf_get_current_task()));
	}
	bpf_map_delete_elem(&questions, &id);
	return 0;
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
