#!/bin/sh
# Compares a scan of 5,000 cgroups with the bare system calls that it takes.
# Needs root, cc and a writable cgroup2. Removes what it makes.
#   benches/tree.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-7}
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
top=$root/gpumap-bench-$$
work=$(mktemp -d)
trap '"$work/tree" clean "$top"; rm -r "$work"' EXIT
trap 'exit 1' INT TERM

cc -O2 -Wall -o "$work/tree" benches/tree.c
cargo build --release
"$work/tree" make "$top" 50 100 100

# Whole processes, both: start, scan and, for gpumap, analysis and JSON.
timed() {
	log=$1 start=$(date +%s%N)
	shift
	"$@" >"$work/out"
	echo $(($(date +%s%N) - start)) >>"$log"
}
for round in $(seq "$rounds"); do
	timed "$work/bare.log" "$work/tree" scan "$top"
	timed "$work/gpumap.log" target/release/gpumap cgroup -r "$top" --json
done
best() { sort -n "$1" | head -n 1; }
median() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
for figure in best median; do
	awk -v what=$figure -v a="$($figure "$work/bare.log")" -v b="$($figure "$work/gpumap.log")" 'BEGIN {
		printf "%s: bare %.2f ms, gpumap %.2f ms, ratio %.2f\n", what, a / 1e6, b / 1e6, b / a }'
done
