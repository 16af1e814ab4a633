#!/bin/sh
# Slurm TaskProlog: tells the user when a task asks for GPUs it cannot have.
#
# Runs as the user, in the task's cgroup, before each task. A line that begins
# with "print " goes to the task's standard output. It never fails the task.
#
# A user may not read device programs. But gpumap check --self asks the kernel
# what this very process may open, which needs no right; CUDA counts those GPUs
# from 0. Slurm itself sets the variable to what it granted: a task that asks
# for another is one whose gres.conf sets none (Flags=no_gpu_env), or whose
# earlier TaskProlog changed it.
#
# Install: copy it with mode 755, say so in slurm.conf, then scontrol reconfigure:
#          TaskProlog=/etc/slurm/task-prolog.sh
PATH=/usr/local/bin:/usr/bin:/bin
export PATH

# Numbers alone; where there are MIG instances they count something else.
case ${CUDA_VISIBLE_DEVICES-} in '' | *[!0-9,]*) exit 0 ;; esac
for instance in /proc/driver/nvidia/capabilities/gpu*/mig/gi*; do
	[ ! -e "$instance" ] || exit 0
done
may_open() {
	timeout -k 1 2 gpumap check --self "$1" >/dev/null 2>&1
}
# A gpumap that is broken denies everything, this too.
may_open /dev/null || exit 0
count=0
for node in /dev/nvidia[0-9]*; do
	may_open "$node"
	case $? in
	0) count=$((count + 1)) ;;
	1) ;;
	*) exit 0 ;;
	esac
done
IFS=,
for number in $CUDA_VISIBLE_DEVICES; do
	if [ "${number:-0}" -ge "$count" ]; then
		echo "print gpumap: CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES: there is no GPU $number:" \
			"this task may open $count, counted from 0"
		break
	fi
done
exit 0
