#!/bin/bash
# What it costs to execute a program with 80 variables while that is watched:
# nanoseconds from vfork to its end, and the ratio to one that nobody watches.
# Needs root, cc and a writable cgroup2. Removes what it makes.
#   benches/exec.sh [ROUNDS]
# Each round measures everything in turn; the best of all rounds counts.
rounds=${1:-5}
. "$(dirname "$0")/common.sh"

cc -O2 -Wall -static -o "$work/exec" benches/exec.c
built
mkdir "$top"

outside() { "$work/exec" 500 5 >>"$work/$1.log"; }
inside() { (echo 0 >"$top/cgroup.procs"; outside "$@"); }

for round in $(seq "$rounds"); do
	outside none
	watch_gpumap --cgroup "$top"
	outside cgroup
	inside told
	rest
done

none=$(best none)
row() {
	awk -v what="$2" -v ns="$(best "$1")" -v none="$none" 'BEGIN {
		printf "%-40s %8.0f ns %8.0f added %6.2f x\n", what, ns, ns - none, ns / none }'
}
row none 'nobody watches'
row cgroup 'watch --cgroup: a process outside'
row told 'watch --cgroup: told'
