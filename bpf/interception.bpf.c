/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The time from a program's call of a library that stands before the driver
 * (libvgpu.so, libsoftmig.so) to that library's call of the same function of the
 * driver: what the library does before each launch, allocation, question; and the calls
 * of the driver that the library had no part in. Sums by process and function; no record
 * for a call. Needs Linux 5.15 (cookies) with BTF.
 */
#include "array_size.h"
#include "own_stack.h"
#include "interception.h"

/* How many entries each table has at most. */
#define ROOM_INTERCEPTIONS 16384
#define ROOM_CALLERS 32768
#define ROOM_BETWEEN 16384
#define ROOM_OF(table) ((table) == CALLERS ? ROOM_CALLERS : ROOM_INTERCEPTIONS)

#include "shares.h"

TABLE(interceptions, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_INTERCEPTIONS, struct interception_key,
      struct interception);

/* A call of the library that the driver has not got yet. */
struct call {
	__u64 entered;
	__u64 stack;          /* the stack pointer at the entry; 0: none */
	__u64 back;           /* the return address there, where it is on the stack */
	__u64 function;
};
/* A thread's calls, the outermost first: functions of the library may call each other. */
#define NESTED_CALLS 4
struct caller { struct call calls[NESTED_CALLS]; __u32 account, pad; };
TABLE(callers, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_CALLERS, __u32, struct caller);

/* Processes that called the library, and their accounts: the driver's probes are in all
 * processes that use it. */
TABLE(between, BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, ROOM_BETWEEN, __u32, __u32);

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

static __attribute__((noinline)) struct interception *sums_of(__u32 function)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct interception_key key = {
		.start = start_of(task),
		.pid = bpf_get_current_pid_tgid() >> 32,
		.function = function,
	};
	struct interception *sums = bpf_map_lookup_elem(&interceptions, &key);
	void *none = zeros();
	__u32 account;

	if (sums || !none)
		return sums;
	account = own_account();
	if (take_share(account, INTERCEPTIONS)) {
		if (bpf_map_update_elem(&interceptions, &key, none, BPF_NOEXIST))
			give_back_share(account, INTERCEPTIONS);
		sums = bpf_map_lookup_elem(&interceptions, &key);
	}
	if (sums)
		sums->account = account;
	else
		lose_of(account, INTERCEPTIONS);
	return sums;
}

static __always_inline struct caller *new_caller(__u32 tid)
{
	__u32 account = own_account(), pid = bpf_get_current_pid_tgid() >> 32;
	struct caller *caller = 0;
	void *none = zeros();

	if (!bpf_map_lookup_elem(&between, &pid)) {
		if (!take_share(account, BETWEEN))
			lose_of(account, BETWEEN);
		else if (bpf_map_update_elem(&between, &pid, &account, BPF_NOEXIST))
			give_back_share(account, BETWEEN);
	}
	if (none && take_share(account, CALLERS)) {
		if (bpf_map_update_elem(&callers, &tid, none, BPF_NOEXIST))
			give_back_share(account, CALLERS);
		caller = bpf_map_lookup_elem(&callers, &tid);
	}
	if (caller)
		caller->account = account;
	else
		lose_of(account, CALLERS);
	return caller;
}

static __always_inline __u32 class_of(__u64 ns)
{
	__u64 value = ns >> FIRST_CLASS_BITS;
	__u32 octave = 0;

	if (!value)
		return ns >> 4;
	if (value >> SPLIT_OCTAVES)
		return LINEAR + 4 * SPLIT_OCTAVES + (value >> (SPLIT_OCTAVES + 1) ? 1 : 0);
	if (value >> 8) { octave += 8; value >>= 8; }
	if (value >> 4) { octave += 4; value >>= 4; }
	if (value >> 2) { octave += 2; value >>= 2; }
	if (value >> 1) octave += 1;
	return LINEAR + 4 * octave + (ns >> (FIRST_CLASS_BITS - 2 + octave) & 3);
}

/* At the entry of the library's function. Calls whose frames lie below have returned. */
SEC("uprobe/library") int enter_library(void *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 function = FUNCTION_OF(bpf_get_attach_cookie(ctx)), stack = stack_pointer(ctx);
	struct caller *caller;
	struct interception *sums;
	struct call *call = 0;

	keep_stack_of_task();
	if (!in_scope())
		return 0;
	sums = sums_of(function);
	if (!sums)
		return 0;
	add(&sums->calls, 1);
	caller = bpf_map_lookup_elem(&callers, &tid);
	if (!caller)
		caller = new_caller(tid);
	if (!caller)
		return 0;
	for (int place = 0; place < NESTED_CALLS; place++) {
		if (caller->calls[place].stack <= stack)
			caller->calls[place].stack = 0;
		if (!call && !caller->calls[place].stack)
			call = &caller->calls[place];
	}
	if (!call)
		call = &caller->calls[NESTED_CALLS - 1];
	call->function = function;
	call->back = return_address(stack);
	call->stack = stack;
	/* The time that all this took is none of the library's. */
	call->entered = bpf_ktime_get_ns();
	return 0;
}

/* Whether a call of the library is under way: its frame lies above (or here, if the library
 * jumps to the driver), with the return address that was there. */
static __always_inline int is_under_way(struct call *call, __u64 stack)
{
	return call->stack && stack <= call->stack && return_address(call->stack) == call->back;
}

static __always_inline __u64 fourth_argument(void *ctx)
{
	return is_x86() ? register_of((struct pt_regs___x86 *)ctx, cx) : argument(ctx, 3);
}

/* How many bytes of a device the call asks for. */
static __always_inline __u64 bytes_asked(void *ctx, __u64 cookie)
{
	__u32 where = BYTES_OF(cookie);

	switch (where) {
	case IN_ARGUMENT: return argument(ctx, 1);
	case WIDTH_AND_HEIGHT: return argument(ctx, 2) * fourth_argument(ctx);
	case ARRAY: case ARRAY_3D: case MIPMAPS:
		return array_bytes(argument(ctx, 1), where != ARRAY, where == MIPMAPS ? argument(ctx, 2) : 1);
	}
	return 0;
}

/* A call of the driver that the library had no part in. */
static __always_inline void goes_past(struct interception *sums, void *ctx, __u64 cookie)
{
	__u64 bytes = bytes_asked(ctx, cookie);

	add(&sums->past, 1);
	if (bytes == UNSIZED)
		add(&sums->unsized, 1);
	else
		add(&sums->past_bytes, bytes);
}

/* At the entry of the driver's function of the same name. A library that refuses a call
 * does not reach the driver; whatever reaches it outside of the library's calls goes past
 * the library. */
SEC("uprobe/driver") int enter_driver(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), stack = stack_pointer(ctx);
	__u64 cookie = bpf_get_attach_cookie(ctx), function = FUNCTION_OF(cookie);
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id, pid = id >> 32, class;
	struct caller *caller;
	struct interception *sums;
	struct call *call = 0;
	int inside = 0;

	keep_stack_of_task();
	if (!bpf_map_lookup_elem(&between, &pid))
		return 0;
	caller = bpf_map_lookup_elem(&callers, &tid);

	for (int place = 0; caller && place < NESTED_CALLS; place++) {
		if (!is_under_way(&caller->calls[place], stack))
			continue;
		inside = 1;
		if (caller->calls[place].function == function)
			call = &caller->calls[place];
	}
	if ((inside && !call) || (!inside && !in_scope()))
		return 0;
	sums = sums_of(function);
	if (!sums)
		return 0;
	if (!call) {
		goes_past(sums, ctx, cookie);
		return 0;
	}
	now -= call->entered;
	call->stack = 0;
	add(&sums->reached, 1);
	add(&sums->ns, now);
	class = class_of(now);
	if (class < CLASSES)
		add(&sums->classes[class], 1);
	return 0;
}

/* trace_sched_process_exit(task): the last thread ends the process. */
SEC("raw_tp/sched_process_exit") int forget_caller(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 tid = read_field(task, pid), pid = read_field(task, tgid);
	struct signal_struct *signal = read_field(task, signal);
	struct caller *caller = bpf_map_lookup_elem(&callers, &tid);
	__u32 *known, account;

	if (caller) {
		account = caller->account;
		if (!bpf_map_delete_elem(&callers, &tid))
			give_back_share(account, CALLERS);
	}
	if (read_field(signal, live.counter))
		return 0;
	known = bpf_map_lookup_elem(&between, &pid);
	if (!known)
		return 0;
	account = *known;
	if (!bpf_map_delete_elem(&between, &pid))
		give_back_share(account, BETWEEN);
	return 0;
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
