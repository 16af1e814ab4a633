#!/bin/sh
# Slurm HealthCheckProgram: drains the node when GPU isolation is broken.
#
# Runs as root on all nodes at once and is killed after 60 seconds. Slurm only
# logs its exit code, so it drains the node itself. Only a critical finding
# does that: exit status 2 with the line that says so. Anything else means that
# gpumap could not tell, which is no reason to lose a node; it is logged. A node
# that is drained already keeps its reason.
#
# Install: copy it with mode 755, say so in slurm.conf, then scontrol reconfigure:
#          HealthCheckProgram=/etc/slurm/health-check.sh
#          HealthCheckInterval=300
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# scontrol stands beside the slurmd that runs this, or where clouds and clusters put it.
slurmd=$(readlink "/proc/$PPID/exe")
case $slurmd in */sbin/*) PATH=$PATH:${slurmd%/sbin/*}/bin ;; esac
PATH=$PATH:/opt/slurm/bin:/usr/local/slurm/bin:/cm/shared/apps/slurm/current/bin
export PATH

state=/var/lib/gpumap
mkdir -p -m 700 "$state"
line=$(timeout -k 5 30 gpumap audit --nagios --timeout 20s --report "$state/audit.json" 2>&1)
status=$?
case $status,$line in
0,'GPUMAP OK - '* | 1,'GPUMAP WARNING - '*) ;;
2,'GPUMAP CRITICAL - '*)
	reason=${line#GPUMAP CRITICAL - }
	command -v scontrol >/dev/null ||
		logger -t gpumap-health -p daemon.err "there is no scontrol in $PATH; found: $reason"
	scontrol --oneliner show node "$SLURMD_NODENAME" | grep -q ' State=[^ ]*DRAIN' ||
		said=$(scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN \
			Reason="gpumap: $(printf '%.200s' "${reason%%|*}")" 2>&1) ||
		logger -t gpumap-health -p daemon.err "the node could not be drained: $said; found: $reason"
	;;
*) logger -t gpumap-health -p daemon.warning "gpumap could not tell (exit $status): $line" ;;
esac
exit 0
