#!/bin/sh
# Slurm HealthCheckProgram: drains the node when GPU isolation is broken.
#
# Runs as root on all nodes at once and is killed after 60 seconds. Slurm only
# logs its exit code, so it drains the node itself. Only exit code 1, a finding,
# drains it: 2 and 3 mean that gpumap could not tell, which is no reason to lose
# a node.
#
# Install: slurm.conf: HealthCheckProgram=/etc/slurm/health-check.sh
#          HealthCheckInterval=300
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

state=/var/lib/gpumap
mkdir -p "$state"
gpumap audit --fail-on critical --timeout 20s --report "$state/audit.json" >"$state/audit.txt" 2>&1
case $? in
1)
	reason=$(grep -m 1 '^CRITICAL' "$state/audit.txt" | cut -c 1-100)
	scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="gpumap: $reason"
	;;
2 | 3) logger -t gpumap-health -p daemon.warning "gpumap could not tell: $(tail -n 1 "$state/audit.txt")" ;;
esac
exit 0
