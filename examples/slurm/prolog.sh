#!/bin/sh
# Slurm Prolog: is somebody else on the GPUs this job is about to get?
#
# Runs as root on each node, without a PATH, before the job's first step. It
# must be quick and must never drain the node because gpumap had trouble:
# --from-env makes gpumap end with 0 unless --fail-on is given, and --timeout
# bounds it. What it finds goes to the system's log.
#
# Install: slurm.conf: Prolog=/etc/slurm/prolog.d/50-gpumap.sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# Add "--fail-on critical" to refuse the job: a Prolog that fails drains the
# node and requeues the job.
findings=$(gpumap audit --from-env --timeout 2s 2>&1)
case $findings in
'' | 'No finding'*) ;;
*) printf '%s\n' "$findings" | logger -t gpumap-prolog -p daemon.warning ;;
esac
exit 0
