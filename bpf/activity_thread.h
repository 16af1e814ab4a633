/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that call a driver: which process they are of, which context is
 * theirs, and the arguments of the call that they are in.
 */
#pragma once

#include "activity_launches.h"

/* Ids of processes: the pid (the kernel has at most 2^22) and when it was first
 * seen, in units of 65 microseconds. No process executes two programs in that
 * time, and no pid comes again. */
#define PID_BITS 22
#define TIME_SHIFT 16

/* Whether a process called a driver before it came into scope, or may have. */
static __always_inline int was_outside(__u32 pid, __u32 account)
{
	struct activity_account *own = bpf_map_lookup_elem(&accounts, &account);

	return bpf_map_lookup_elem(&outside, &pid) || (own && own->lost[OUTSIDE]);
}

/* What a process does, for user space. Sums do not depend on it. */
static __always_inline void tell(struct task_struct *task, __u32 kind, __u32 parent)
{
	struct activity_life *life = bpf_ringbuf_reserve(&lives, sizeof(*life), 0);
	__u32 account = account_of(task);

	if (!life) {
		lose_of(known_account(account), RECORDS);
		return;
	}
	life->start = start_of(task);
	life->at = bpf_ktime_get_boot_ns();
	life->cgroup = cgroup_of(task);
	life->kind = kind;
	life->pid = read_field(task, tgid);
	life->parent = parent;
	life->account = account;
	bpf_ringbuf_submit(life, 0);
}

static __always_inline void describe_process(struct activity_process *process, __u32 pid,
					     __u32 account, __u64 cookie)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct cred *cred = read_field(task, cred);

	process->start = start_of(task);
	process->cgroup = cgroup_of(task);
	process->first = bpf_ktime_get_ns();
	process->uid = read_field(cred, euid.val);
	process->account = account;
	process->link = COOKIE_LINK(cookie);
	process->outside = was_outside(pid, account);
	bpf_get_current_comm(process->comm, sizeof(process->comm));
	*(volatile __u32 *)&process->pid = pid;
}

static __always_inline __u64 new_process(__u32 pid, __u64 cookie)
{
	__u32 account = own_account();
	__u64 id = bpf_ktime_get_boot_ns() >> TIME_SHIFT << PID_BITS | pid, *other;
	struct activity_process *process = 0;
	void *none = zeros();

	if (none && take_share(account, PROCESSES)) {
		if (bpf_map_update_elem(&processes, &id, none, BPF_NOEXIST))
			give_back_share(account, PROCESSES);
		process = bpf_map_lookup_elem(&processes, &id);
	}
	if (!process) {
		lose_of(account, PROCESSES);
		return 0;
	}
	/* Another thread may have been faster, in the same unit of time or in another one. */
	if (!process->pid)
		describe_process(process, pid, account, cookie);
	if (!bpf_map_update_elem(&current, &pid, &id, BPF_NOEXIST)) {
		tell((struct task_struct *)bpf_get_current_task(), LIFE_CALL, 0);
		return id;
	}
	other = bpf_map_lookup_elem(&current, &pid);
	if ((!other || *other != id) && !bpf_map_delete_elem(&processes, &id))
		give_back_share(account, PROCESSES);
	if (!other)
		lose_of(account, PROCESSES);
	return other ? *other : 0;
}

/* The current process is not followed, and calls. */
static __always_inline void stays_outside(__u32 pid)
{
	__u32 account;

	if (bpf_map_lookup_elem(&outside, &pid))
		return;
	account = own_account();
	if (!take_share(account, OUTSIDE))
		lose_of(account, OUTSIDE);
	else if (bpf_map_update_elem(&outside, &pid, &account, BPF_NOEXIST))
		give_back_share(account, OUTSIDE);
}

/* Whether the current thread began before its library was attached to: it may
 * have chosen a context or a device that was not seen. */
static __always_inline int began_before(__u64 cookie)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 link = COOKIE_LINK(cookie);
	__u64 *since = bpf_map_lookup_elem(&attached, &link);
	__u64 began = field_exists(task->start_boottime) ? read_field(task, start_boottime) : 0;

	return !since || began <= *since;
}

/* The entry of a thread. It is given room by account alone: a thread may end after its
 * process was read and cleared away. */
static __always_inline struct thread *room_for_thread(__u32 tid, __u32 account)
{
	struct thread *thread = 0;
	void *none = zeros();

	if (none && take_share(account, THREADS)) {
		if (bpf_map_update_elem(&threads, &tid, none, BPF_NOEXIST))
			give_back_share(account, THREADS);
		thread = bpf_map_lookup_elem(&threads, &tid);
	}
	if (thread)
		thread->account = account;
	return thread;
}

static __always_inline void forget_thread(__u32 tid)
{
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	__u32 account;

	if (!thread)
		return;
	account = thread->account;
	flush_launches(thread);
	if (!bpf_map_delete_elem(&threads, &tid))
		give_back_share(account, THREADS);
}

static __always_inline struct thread *counted_thread(__u32 tid, __u64 process, __u64 cookie)
{
	struct activity_process *known = bpf_map_lookup_elem(&processes, &process);
	struct thread *thread = known ? room_for_thread(tid, known->account) : 0;
	__u32 slot = 0;
	__u64 *setting;

	if (!thread) {
		lose(process, THREADS);
		return 0;
	}
	setting = bpf_map_lookup_elem(&settings, &slot);
	thread->every = setting ? *setting : 1;
	slot = 2;
	setting = bpf_map_lookup_elem(&settings, &slot);
	thread->apart = setting ? *setting : 1;
	thread->countdown = 1;
	thread->hip_device = began_before(cookie) ? UNKNOWN_DEVICE : 0;
	thread->process = process;
	return thread;
}

/* The entry of a thread that calls and has none. */
static __always_inline struct thread *new_thread(__u64 id, __u64 cookie)
{
	__u32 pid = id >> 32;
	__u64 *known, process, moved = number_of_moves();

	/* A process that is counted stays so wherever it is moved. */
	known = bpf_map_lookup_elem(&current, &pid);
	if (!known && !in_scope()) {
		stays_outside(pid);
		leave_alone(id, moved);
		return 0;
	}
	process = known ? *known : new_process(pid, cookie);
	return process ? counted_thread(id, process, cookie) : 0;
}

static __always_inline __u64 current_context(struct thread *thread)
{
	__u32 top = thread->depth - 1;

	if (COOKIE_HIP(thread->cookie))
		return HIP_CONTEXT | (__u32)(thread->hip_device + 1);
	return top < STACK ? thread->contexts[top & (STACK - 1)] : 0;
}

static __always_inline void pop_context(struct thread *thread)
{
	thread->depth -= thread->depth > 0;
}

static __always_inline void push_context(struct thread *thread, __u64 context)
{
	__u32 top = thread->depth++;

	if (top < STACK)
		thread->contexts[top & (STACK - 1)] = context;
}

/* NULL takes the top away. */
static __always_inline void set_context(struct thread *thread, __u64 context)
{
	pop_context(thread);
	if (context)
		push_context(thread, context);
}

/* The arguments of a call, at its entry. */
struct arguments {
	__u64 registers[8];
	__u64 others;         /* where those are that are in no register */
	__u32 in_registers;
};

static __always_inline __u64 stack_pointer(void *ctx)
{
	if (is_x86())
		return register_of((struct pt_regs___x86 *)ctx, sp);
	return ((struct user_pt_regs___arm *)ctx)->sp;
}

static __always_inline void read_arguments(struct arguments *arguments, void *ctx)
{
	if (is_x86()) {
		struct pt_regs___x86 *regs = ctx;

		arguments->registers[0] = register_of(regs, di);
		arguments->registers[1] = register_of(regs, si);
		arguments->registers[2] = register_of(regs, dx);
		arguments->registers[3] = register_of(regs, cx);
		arguments->registers[4] = register_of(regs, r8);
		arguments->registers[5] = register_of(regs, r9);
		arguments->registers[6] = arguments->registers[7] = 0;
		arguments->in_registers = 6;
		/* The return address comes first. */
		arguments->others = register_of(regs, sp) + 8;
		return;
	}
	struct user_pt_regs___arm *regs = ctx;

	for (int number = 0; number < 8; number++)
		arguments->registers[number] = regs->regs[number];
	arguments->in_registers = 8;
	arguments->others = regs->sp;
}

/* The bytes at an address of the process; 0 if they cannot be read. */
static __always_inline __u64 read_user(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline __u32 read_user_word(__u64 address)
{
	__u32 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline __u64 argument_of(struct arguments *arguments, __u32 number)
{
	if (number == NO_ARGUMENT)
		return 0;
	if (number < arguments->in_registers)
		return arguments->registers[number & 7];
	return read_user(arguments->others + 8 * (number - arguments->in_registers));
}
