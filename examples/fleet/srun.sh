#!/bin/sh
# One report over the nodes of a Slurm cluster, by srun: a task on each node prints
# its answer, and `gpumap fleet` puts the labelled lines together.
#
#   srun.sh [NODES]          a host list; by default every node that Slurm can use
#
# Run it as root, or as a user who may be root on the nodes: a user sees less, and
# gpumap says so. GPUMAP names the program on the nodes; with GPUMAP_COPY=1 this
# machine's own is copied there first (srun --bcast), to /tmp. GPUMAP_ASK is what each
# node is asked: `node --json --compact --audit` by default, an answer with its findings.
# Options for `gpumap fleet` are taken from GPUMAP_FLEET. The exit status is that of
# `gpumap fleet`: 1 findings, 3 something missing.
set -u
gpumap=${GPUMAP:-gpumap}
ask=${GPUMAP_ASK:-node --json --compact --audit}

# srun refuses all nodes if one is down, so only those are asked that can answer.
# The others are reported as missing.
if [ $# -gt 0 ]; then set -- -n "$1"; fi
expected=$(sinfo -h -N "$@" -o %N | sort -u)
able=$(sinfo -h -N -t idle,alloc,mix "$@" -o %N | sort -u)
[ -n "$able" ] || { echo "srun.sh: no node can answer" >&2; exit 2; }
count=$(printf '%s\n' "$able" | wc -l)
list=$(printf '%s\n' "$able" | paste -s -d , -)

copy=
if [ -n "${GPUMAP_COPY:-}" ]; then copy=--bcast=/tmp/gpumap.$$; fi

names=$(mktemp) || exit 2
trap 'rm -f "$names"' EXIT
printf '%s\n' "$expected" >"$names"

# -K0: a task that fails does not end the others. --overlap: nodes whose CPUs are
# all in use answer too, where this runs inside of a job.
# shellcheck disable=SC2086 # the words of the question and the options
srun -K0 --label --overlap -N "$count" --ntasks-per-node=1 -w "$list" $copy "$gpumap" $ask |
    "${GPUMAP_HERE:-gpumap}" fleet - --expect-file "$names" ${GPUMAP_FLEET:-}
