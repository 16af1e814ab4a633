/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The few kernel types that are needed, with the few fields that are read.
 * Their true places are filled in when the object is loaded (CO-RE), so one
 * object serves every kernel with BTF, on x86-64 and arm64.
 */
#pragma once

#include "helpers.h"

typedef struct { __u32 val; } RELOCATED kuid_t;
typedef struct { int counter; } RELOCATED atomic_t;

struct uid_gid_extent { __u32 first, lower_first, count; } RELOCATED;
struct uid_gid_map { __u32 nr_extents; struct uid_gid_extent extent[1]; } RELOCATED;
struct user_namespace {
	struct uid_gid_map uid_map;
	struct user_namespace *parent;
	int level;
	kuid_t owner;
} RELOCATED;
struct cred { kuid_t uid, euid; struct user_namespace *user_ns; } RELOCATED;
struct signal_struct { atomic_t live; } RELOCATED;
struct kernfs_node { __u64 id; } RELOCATED;
struct cgroup_root { int hierarchy_id; } RELOCATED;
struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
	int level;
	struct cgroup *ancestors[0];
} RELOCATED;
/* Before 6.1 a cgroup had the ids of those above it, and its own. */
struct cgroup___ids { __u64 ancestor_ids[0]; } RELOCATED;
struct css_set { struct cgroup *dfl_cgrp; } RELOCATED;
struct mm_struct { unsigned long env_start, env_end; } RELOCATED;

struct task_struct {
	int pid;
	int tgid;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct cred *cred;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct mm_struct *mm;
	char comm[16];
} RELOCATED;

/* Before 5.5 the field had another name. */
struct task_struct___old { __u64 real_start_time; } RELOCATED;

/* Registers at the entry or return of a function. */
struct pt_regs___x86 { unsigned long di, si, dx, cx, r8, r9, ax, ip, sp; } RELOCATED;
struct user_pt_regs___arm { __u64 regs[31]; __u64 sp; __u64 pc; } RELOCATED;

#define is_x86() field_exists(((struct pt_regs___x86 *)0)->di)

/* The registers are the program's context and are read without a helper. That
 * takes an instruction with the offset in it: the value is marked, or clang
 * would join the loads of both architectures and compute the offset. */
#define register_of(regs, field) ({                              \
	unsigned long value_ = (regs)->field;                     \
	asm volatile("" : "+r"(value_));                          \
	value_; })

/* One of the first four arguments of a function that is being entered. */
static __always_inline unsigned long argument(void *ctx, int number)
{
	if (is_x86()) {
		struct pt_regs___x86 *regs = ctx;

		return number == 0 ? register_of(regs, di) :
		       number == 1 ? register_of(regs, si) :
		       number == 2 ? register_of(regs, dx) : register_of(regs, cx);
	}
	struct user_pt_regs___arm *regs = ctx;

	return regs->regs[number];
}

/* What a function returned: an int. */
static __always_inline int returned(void *ctx)
{
	if (is_x86())
		return register_of((struct pt_regs___x86 *)ctx, ax);
	return ((struct user_pt_regs___arm *)ctx)->regs[0];
}

/* Where the process goes on. */
static __always_inline unsigned long instruction(void *ctx)
{
	if (is_x86())
		return register_of((struct pt_regs___x86 *)ctx, ip);
	return ((struct user_pt_regs___arm *)ctx)->pc;
}
