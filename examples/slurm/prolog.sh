#!/bin/sh
# Slurm Prolog: is somebody else on the GPUs this job is about to get?
#
# Runs as root on each node, without a PATH, before the job's first step. It
# must be quick and must never drain the node because gpumap had trouble:
# --from-env makes gpumap end with 0 unless --fail-on is given, --timeout bounds
# it, and timeout(1) bounds a gpumap that hangs. What it finds goes to the
# system's log.
#
# Install: copy it with mode 755, say so in slurm.conf, then scontrol reconfigure:
#          Prolog=/etc/slurm/prolog.d/50-gpumap.sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# When the job began, for the Epilog: a process that is older is not the job's.
jobs=/run/gpumap/jobs
mkdir -p -m 700 /run/gpumap "$jobs" && : >"$jobs/$SLURM_JOB_ID"

findings=$(timeout -k 1 4 gpumap audit --from-env --timeout 2s 2>&1)
status=$?
case $findings in
'' | 'No finding'*) ;;
*) printf '%s\n' "$findings" | logger -t gpumap-prolog -p daemon.warning ;;
esac
# gpumap is not there (127), hung (124, 137) or is broken.
case $status in
0 | 1 | 3) ;;
*)
	logger -t gpumap-prolog -p daemon.warning \
		"job $SLURM_JOB_ID: gpumap could not tell who is on its GPUs (exit $status)"
	;;
esac
# Where one question is enough, `gpumap free --from-env --timeout 2s` answers it with its exit
# status: 0 free, 1 held, 3 not known.
#
# To refuse the job instead (a Prolog that fails drains the node and requeues
# the job), add "--fail-on critical" above and end with: [ "$status" -ne 1 ]
exit 0
