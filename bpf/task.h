/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What is asked of a task: when its process started, its cgroup, who answers
 * for it.
 */
#pragma once

#include "kernel.h"

static __always_inline __u64 start_of(struct task_struct *task)
{
	struct task_struct *leader = read_field(task, group_leader);

	if (field_exists(leader->start_boottime))
		return read_field(leader, start_boottime);
	return read_field((struct task_struct___old *)leader, real_start_time);
}

static __always_inline __u64 cgroup_of(struct task_struct *task)
{
	struct css_set *set = read_field(task, cgroups);
	struct cgroup *cgroup = read_field(set, dfl_cgrp);
	struct kernfs_node *node = read_field(cgroup, kn);

	return read_field(node, id);
}

/* The kernel nests user namespaces this deep at most (create_user_ns). */
#define NESTED 33

/* The user who answers for a thread. Not its effective user: that is root for
 * whoever executes sudo. In a user namespace it is who made the outermost one,
 * for a user owns 65,536 others there; or, if root made it, the first user that
 * it has room for, which tells one container from another. */
static __always_inline __u32 account_of(struct task_struct *task)
{
	struct cred *cred = read_field(task, cred);
	struct user_namespace *space = read_field(cred, user_ns);
	int level = read_field(space, level);

	if (level == 0)
		return read_field(cred, uid.val);
	for (int above = 0; above < NESTED && level > 1; above++, level--)
		space = read_field(space, parent);
	__u32 owner = read_field(space, owner.val);
	/* With more than five extents they are elsewhere. */
	__u32 extents = read_field(space, uid_map.nr_extents);

	return owner || !extents || extents > 5 ? owner :
		read_field(space, uid_map.extent[0].lower_first);
}
