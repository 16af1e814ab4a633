#!/bin/sh
# Slurm Epilog: ends processes that a job left on its GPUs, and nobody else's.
#
# Runs as root on each node when the job has ended. gpumap lists the processes
# of this job alone, by pid and start time; a pid that was used again meanwhile
# has another start time and is left alone. Nothing here fails the Epilog, which
# would drain the node; timeout(1) bounds a gpumap that hangs.
#
# Install: slurm.conf: Epilog=/etc/slurm/epilog.d/50-gpumap.sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# When a process started, in clock ticks after boot: field 22 of its stat, which
# is the 20th after the name, and the name may hold anything.
started() {
	sed -n '$s/.*) //p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
}

timeout -k 1 6 gpumap leftovers --from-env --porcelain --timeout 4s 2>/dev/null |
	while IFS='	' read -r pid start uid why gpus rest; do
		[ "$(started "$pid")" = "$start" ] || continue
		kill -KILL "$pid" 2>/dev/null &&
			logger -t gpumap-epilog -p daemon.notice \
				"job $SLURM_JOB_ID left process $pid (uid $uid, by $why) on $gpus: killed"
	done
exit 0
