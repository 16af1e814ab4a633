/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel types that the scan reads, as kernel.h has those of the watch.
 * Iterators are handed typed pointers and may follow them: each field is read
 * by a plain load, whose offset is filled in when the object is loaded.
 */
#pragma once

#include "helpers.h"

struct seq_file;
struct files_struct;
struct bpf_iter_meta { struct seq_file *seq; } RELOCATED;

typedef struct { __u32 val; } RELOCATED kuid_t;
typedef struct { int counter; } RELOCATED atomic_t;

struct cred { kuid_t euid; } RELOCATED;
struct signal_struct { atomic_t live; } RELOCATED;
struct kernfs_node { __u64 id; } RELOCATED;
struct cgroup { struct kernfs_node *kn; } RELOCATED;
struct css_set { struct cgroup *dfl_cgrp; } RELOCATED;
struct inode { __u16 i_mode; __u32 i_rdev; } RELOCATED;
struct file { struct inode *f_inode; unsigned int f_mode; } RELOCATED;
struct upid { int nr; } RELOCATED;
struct pid { unsigned int level; struct upid numbers[0]; } RELOCATED;
struct mm_struct { unsigned long start_code, start_stack; } RELOCATED;

struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	__u64 start_boottime;
	__u64 self_exec_id;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct cred *real_cred;
	struct signal_struct *signal;
	struct files_struct *files;
	struct css_set *cgroups;
	struct mm_struct *mm;
	char comm[16];
} RELOCATED;
