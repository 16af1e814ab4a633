#!/bin/bash
# What a setenv call costs while it is watched: nanoseconds, and the ratio to a
# call that nobody watches. Needs root, cc and a writable cgroup2; with bpftrace
# it is measured too. Removes what it makes.
#   benches/setenv.sh [ROUNDS]
# Each round measures everything in turn, so that a busy machine is busy for all.
# GPUMAP_TEST_PROBES=pair measures the probes of kernels before 6.13.
rounds=${1:-5}
. "$(dirname "$0")/common.sh"

cc -O2 -Wall -o "$work/setenv" benches/setenv.c
built --features test-hooks
mkdir "$top"
# A C library of its own: what others watch does not count.
libc=$work/libc.so.6
cp "$(ldd "$work/setenv" | awk '/libc\.so/ { print $3 }')" "$libc"
calls() { LD_LIBRARY_PATH=$work exec "$work/setenv" "$@"; }

trace() { watch Attaching bpftrace -e "$1"; }

# The median of some runs of calls of one variable, as one line of a log.
outside() {
	local log=$1 name=$2 calls=$3
	(calls "$name" "$calls" 9) | sort -n | sed -n 5p >>"$work/$log.log"
}
inside() { (echo 0 >"$top/cgroup.procs"; outside "$@"); }

scope="uprobe:$libc:setenv { if (strncmp(str(arg0), \"CUDA_VISIBLE_DEVICES\", 21) == 0)"
for round in $(seq "$rounds"); do
	outside none OTHER_VARIABLE 200000
	watch_gpumap --cgroup "$top"
	inside name OTHER_VARIABLE 100000
	inside near CUDA_HOME 100000
	outside cgroup CUDA_VISIBLE_DEVICES 100000
	inside reported CUDA_VISIBLE_DEVICES 2000
	rest
	(calls NONE 0 1) &
	sleeper=$!
	watch_gpumap --pid "$sleeper"
	outside pid CUDA_VISIBLE_DEVICES 200000
	rest
	kill "$sleeper"
	wait "$sleeper" 2>/dev/null || true
	command -v bpftrace >/dev/null || continue
	trace "uprobe:$libc:setenv { @ = 1; }"
	outside empty OTHER_VARIABLE 100000
	rest
	trace "$scope { @ = count(); } }"
	outside filtered OTHER_VARIABLE 100000
	outside counted CUDA_VISIBLE_DEVICES 100000
	rest
	trace "$scope { printf(\"%d %s\\n\", pid, str(arg1)); } }"
	outside printed CUDA_VISIBLE_DEVICES 2000
	rest
done

none=$(median none)
row() {
	[ ! -e "$work/$1.log" ] || awk -v what="$2" -v ns="$(median "$1")" -v none="$none" 'BEGIN {
		printf "%-58s %7.0f ns %7.0f added %6.1f x\n", what, ns, ns - none, ns / none }'
}
row none 'nobody watches'
row name 'watch --cgroup: another variable'
row near 'watch --cgroup: another variable with the same beginning'
row cgroup 'watch --cgroup: a process outside'
row reported 'watch --cgroup: reported'
row pid 'watch --pid: another process'
row empty 'bpftrace, entry alone: a probe that stores a number'
row filtered 'bpftrace, entry alone: another variable'
row counted 'bpftrace, entry alone: counted'
row printed 'bpftrace, entry alone: printed'
