/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What `gpumap activity` is compared with: a program that does nothing, and one that
 * sends an event for each launch, of the size and with the contents of Datadog's agent
 * (a header with the name of the cgroup, then the launch: 208 bytes).
 */
#include "../bpf/kernel.h"

struct kernfs_node___named { const char *name; } RELOCATED;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

struct event {
	__u64 id, stream, at;
	__u32 kind, pad;
	char cgroup[136];
	__u64 kernel, shared;
	__u32 grid[3], block[3];
};
_Static_assert(sizeof(struct event) == 208, "as Datadog's");

SEC("uprobe/empty") int empty(void *ctx) { return 0; }

SEC("uprobe/event") int send(struct pt_regs___x86 *regs)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct css_set *set = read_field(task, cgroups);
	struct cgroup *cgroup = read_field(set, dfl_cgrp);
	struct kernfs_node___named *node = (struct kernfs_node___named *)read_field(cgroup, kn);
	struct event event = { .id = bpf_get_current_pid_tgid(), .at = bpf_ktime_get_ns() };
	unsigned long stack = register_of(regs, sp);
	__u32 zero = 0;
	__u64 *count;

	event.kernel = register_of(regs, di);
	event.grid[0] = register_of(regs, si);
	event.block[0] = register_of(regs, r8);
	bpf_probe_read_user(&event.shared, 8, (void *)(stack + 16));
	bpf_probe_read_user(&event.stream, 8, (void *)(stack + 24));
	bpf_probe_read_kernel(event.cgroup, 128, read_field(node, name));
	if (bpf_ringbuf_output(&ring, &event, sizeof(event), 0)) {
		count = bpf_map_lookup_elem(&lost, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return 0;
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
