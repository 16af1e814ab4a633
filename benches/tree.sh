#!/bin/bash
# Compares a scan of 5,000 cgroups with the bare system calls that it takes.
# Needs root, cc and a writable cgroup2. Removes what it makes.
#   benches/tree.sh [ROUNDS]
rounds=${1:-7}
. "$(dirname "$0")/common.sh"

cc -O2 -Wall -o "$work/tree" benches/tree.c
cargo build --profile dist
cgroups

# Whole processes, both: start, scan and, for gpumap, analysis and JSON.
timed() {
	local log=$work/$1.log start
	start=$(date +%s%N)
	shift
	"$@" >"$work/out"
	echo $(($(date +%s%N) - start)) >>"$log"
}
for round in $(seq "$rounds"); do
	timed bare "$work/tree" scan "$top"
	timed gpumap target/dist/gpumap cgroup -r "$top" --json
done
for figure in best median; do
	awk -v what=$figure -v a="$($figure bare)" -v b="$($figure gpumap)" 'BEGIN {
		printf "%s: bare %.2f ms, gpumap %.2f ms, ratio %.2f\n", what, a / 1e6, b / 1e6, b / a }'
done
