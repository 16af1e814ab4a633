/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Pids as the process sees them that reads an iterator. The kernel shows it no
 * process from outside its pid namespace, so the level alone tells the number.
 */
#pragma once

#include "scan_kernel.h"

/* The pid of a task `level` levels below the first pid namespace. The numbers
 * lie one behind the other at the end of struct pid. */
static __always_inline __u32 pid_at(struct task_struct *task, __u32 level)
{
	struct pid *pid = task->thread_pid;
	const char *numbers = (const char *)pid + field_offset(pid->numbers);
	int nr = 0;

	bpf_probe_read_kernel(&nr, sizeof(nr), numbers + level * type_size(struct upid));
	return nr;
}

/* The level of the pid namespace of the process that reads. */
static __always_inline __u32 own_level(void)
{
	struct task_struct *reader = (struct task_struct *)bpf_get_current_task();
	struct pid *pid = read_field(reader, thread_pid);

	return read_field(pid, level);
}
