#!/bin/sh
# Slurm TaskProlog: tells the user when a task asks for GPUs it cannot have.
#
# Runs as the user, in the task's cgroup, before each task. A line that begins
# with "print " goes to the task's standard output. It never fails the task.
#
# Install: slurm.conf: TaskProlog=/etc/slurm/task-prolog.sh
PATH=/usr/local/bin:/usr/bin:/bin
export PATH

# The list of a process is cut where an entry is invalid; gpumap says which and
# why below the table.
gpumap pid $$ --timeout 1s 2>/dev/null | grep 'the list ends at' | sed 's/^ */print gpumap: /'
exit 0
