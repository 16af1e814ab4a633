/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The time from a program's call of a library that stands before the driver
 * (libvgpu.so, libsoftmig.so) to that library's call of the same function of the
 * driver: what the library does before each launch, allocation, question. Sums by
 * process and function; no record for a call. Needs Linux 5.15 (cookies) with BTF.
 */
#include "scope.h"
#include "task.h"
#include "interception.h"

/* A call that the driver has not got yet. */
struct call_key { __u32 thread, function; };
struct call {
	__u64 entered;
	__u64 stack;          /* the stack pointer at the entry */
	__u64 back;           /* the return address there, where it is on the stack */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct interception_key);
	__type(value, struct interception);
} interceptions SEC(".maps");

/* What it forgets belongs to threads that have ended, or is one call not timed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

/* Calls for which `interceptions` had no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost_calls SEC(".maps");

static __always_inline __u64 stack_pointer(void *ctx)
{
	if (is_x86())
		return register_of((struct pt_regs___x86 *)ctx, sp);
	return ((struct user_pt_regs___arm *)ctx)->sp;
}

/* On x86 a call puts its return address there. */
static __always_inline __u64 return_address(__u64 stack)
{
	__u64 address = 0;

	if (is_x86())
		bpf_probe_read_user(&address, sizeof(address), (void *)stack);
	return address;
}

static __always_inline struct interception *sums_of(__u32 function)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct interception_key key = {
		.start = start_of(task),
		.pid = bpf_get_current_pid_tgid() >> 32,
		.function = function,
	};
	struct interception *sums = bpf_map_lookup_elem(&interceptions, &key);
	struct interception none = {};
	__u32 zero = 0;
	__u64 *lost;

	if (sums)
		return sums;
	bpf_map_update_elem(&interceptions, &key, &none, BPF_NOEXIST);
	sums = bpf_map_lookup_elem(&interceptions, &key);
	lost = sums ? 0 : bpf_map_lookup_elem(&lost_calls, &zero);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return sums;
}

static __always_inline __u32 class_of(__u64 ns)
{
	__u32 class = 0;

	ns >>= FIRST_CLASS_BITS;
	for (int step = 0; step < CLASSES - 1 && ns; step++, ns >>= 1)
		class++;
	return class & (CLASSES - 1);
}

/* At the entry of the library's function. */
SEC("uprobe/library") int enter_library(void *ctx)
{
	struct call_key key = { bpf_get_current_pid_tgid(), bpf_get_attach_cookie(ctx) };
	struct interception *sums;
	struct call call, *kept;

	if (!in_scope())
		return 0;
	sums = sums_of(key.function);
	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->calls, 1);
	call.entered = bpf_ktime_get_ns();
	call.stack = stack_pointer(ctx);
	call.back = return_address(call.stack);
	bpf_map_update_elem(&calls, &key, &call, BPF_ANY);
	/* The time that all this took is none of the library's. */
	kept = bpf_map_lookup_elem(&calls, &key);
	if (kept)
		kept->entered = bpf_ktime_get_ns();
	return 0;
}

/* At the entry of the driver's function of the same name. The library's call must
 * be under way still: its frame lies above (or here, if it jumps to the driver), with
 * the return address that was there.
 * A library that refuses a call does not reach the driver. */
SEC("uprobe/driver") int enter_driver(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct call_key key = { bpf_get_current_pid_tgid(), bpf_get_attach_cookie(ctx) };
	struct call *call = bpf_map_lookup_elem(&calls, &key);
	struct interception *sums;
	__u64 took;

	if (!call)
		return 0;
	took = now - call->entered;
	if (stack_pointer(ctx) <= call->stack && return_address(call->stack) == call->back) {
		sums = sums_of(key.function);
		if (sums) {
			__sync_fetch_and_add(&sums->reached, 1);
			__sync_fetch_and_add(&sums->ns, took);
			__sync_fetch_and_add(&sums->classes[class_of(took)], 1);
		}
	}
	bpf_map_delete_elem(&calls, &key);
	return 0;
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
