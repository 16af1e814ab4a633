#!/bin/sh
# Slurm Epilog: ends processes that a job left on its GPUs, and nobody else's.
#
# Runs as root on each node when the job has ended. gpumap ends what is
# demonstrably this job's: processes of its user that hold a GPU of the job, in
# the job's cgroup or started since the job began (gpumap-leftovers(1) has the
# rule). Each is pinned by a pidfd and looked at again first, so that no other
# process gets the signal. What it leaves alone is logged with the reason, for an
# administrator to look at. Nothing here fails the Epilog, which would drain the
# node; timeout(1) bounds a gpumap that hangs, and that it could not tell is logged.
#
# Install: copy it with mode 755, say so in slurm.conf, then scontrol reconfigure:
#          Epilog=/etc/slurm/epilog.d/50-gpumap.sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# When the job began: Slurm does not always tell it to an Epilog. The Prolog
# beside this file left a mark; without either, a process that left the job's
# cgroup is logged and not ended.
mark=/run/gpumap/jobs/$SLURM_JOB_ID
: "${SLURM_JOB_START_TIME:=$(stat -c %Y "$mark" 2>/dev/null)}"
export SLURM_JOB_START_TIME
rm -f "$mark"

answer=$(timeout -k 1 6 gpumap leftovers --from-env --kill --porcelain --timeout 4s 2>&1)
status=$?
while IFS='	' read -r pid start uid why gpus done rest; do
	case $pid in '' | *[!0-9]*) continue ;; esac
	logger -t gpumap-epilog -p daemon.notice \
		"job $SLURM_JOB_ID left process $pid (uid $uid, by $why) on $gpus: $done"
done <<END
$answer
END
# 0: nothing was left; 1: what was, see above. Anything else: it is not known, be it that
# gpumap is not there (127), hung (124, 137), is broken or could not see everything (3).
case $status in
0 | 1) ;;
*)
	logger -t gpumap-epilog -p daemon.warning \
		"job $SLURM_JOB_ID: gpumap could not tell what it left (exit $status): $(printf '%s\n' "$answer" |
			grep -v '^[0-9]' | head -n 3 | cut -c 1-300 | paste -s -d ' ' -)"
	;;
esac
exit 0
