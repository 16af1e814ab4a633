#!/bin/bash
# Times the commands on a node with 5,000 cgroups, 100 device programs and 2,000
# processes, eight of them in a job. Needs root, cc and a writable cgroup2.
# Removes what it makes.
#   benches/node.sh [ROUNDS]
rounds=${1:-7}
. "$(dirname "$0")/common.sh"

cc -O2 -Wall -o "$work/tree" benches/tree.c
cargo build --profile dist -q
cgroups
crowd

timed() {
	local name=$1 round start
	shift
	for round in $(seq "$rounds"); do
		start=$(date +%s%N)
		"$@" >"$work/out" 2>"$work/err" || true
		echo $(($(date +%s%N) - start)) >>"$work/$name.log"
	done
	awk -v name="$name" -v best="$(best "$name")" -v median="$(median "$name")" 'BEGIN {
		printf "%-16s best %7.2f ms, median %7.2f ms\n", name, best / 1e6, median / 1e6 }'
}
gpumap() { echo target/dist/gpumap --cgroup-root "$top" --gpu-root fixtures/gpu/four-h200 "$@"; }
timed true /bin/true
timed node $(gpumap node)
timed node-json $(gpumap node --json)
timed job $(gpumap job 4711 --json)
timed pid $(gpumap pid "$pid" --json)
timed leftovers $(gpumap leftovers --job 4711 --json)
timed audit $(gpumap audit --json)
if command -v /usr/bin/time >/dev/null; then
	/usr/bin/time -f 'node: peak memory %M KiB' $(gpumap node --json) >/dev/null 2>"$work/err" || true
	tail -n 1 "$work/err"
fi
