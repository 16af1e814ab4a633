#!/bin/bash
# Times the commands on a node with 5,000 cgroups, 100 device programs and 2,000
# processes, eight of them in a job. Needs root, cc and a writable cgroup2.
# Removes what it makes.
#   benches/node.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-7}
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
top=$root/gpumap-bench-$$
work=$(mktemp -d)
crowd=
finish() {
	# The crowd ends with its parent, and its cgroups when all are gone.
	[ -z "$crowd" ] || { kill -9 "$crowd"; wait "$crowd" 2>/dev/null || true; }
	while grep -q 1 <(grep -h populated "$top/cgroup.events" 2>/dev/null | head -n 1); do sleep 0.1; done
	"$work/tree" clean "$top"
	rm -r "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

cc -O2 -Wall -o "$work/tree" benches/tree.c
cargo build --release -q
"$work/tree" make "$top" 50 100 100
"$work/tree" crowd "$top" 50 100 2000 >"$work/crowd" &
crowd=$!
until grep -q ready "$work/crowd"; do sleep 0.1; done
sleep 1
pid=$(head -n 1 "$work/crowd")

timed() {
	local name=$1 round start
	shift
	for round in $(seq "$rounds"); do
		start=$(date +%s%N)
		"$@" >"$work/out" 2>"$work/err" || true
		echo $(($(date +%s%N) - start)) >>"$work/$name.log"
	done
	sort -n "$work/$name.log" | awk -v name="$name" '{ all[NR] = $1 } END {
		printf "%-16s best %7.2f ms, median %7.2f ms\n", name, all[1] / 1e6, all[int((NR + 1) / 2)] / 1e6 }'
}
gpumap() { echo target/release/gpumap --cgroup-root "$top" --gpu-root fixtures/gpu/four-h200 "$@"; }
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
