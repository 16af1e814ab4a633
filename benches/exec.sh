#!/bin/bash
# What it costs to execute a program with 80 variables while that is watched:
# nanoseconds from vfork to its end, and the ratio to one that nobody watches.
# Needs root, cc and a writable cgroup2. Removes what it makes.
#   benches/exec.sh [ROUNDS]
# Each round measures everything in turn; the best of all rounds counts.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
top=$root/gpumap-bench-$$
work=$(mktemp -d)
watcher=
rest() {
	[ -z "$watcher" ] || { kill "$watcher"; wait "$watcher" 2>/dev/null || true; }
	watcher=
}
finish() {
	rest
	while ! rmdir "$top" 2>/dev/null && [ -d "$top" ]; do sleep 0.1; done
	rm -r "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

cc -O2 -Wall -static -o "$work/exec" benches/exec.c
cargo build --release -q
mkdir "$top"

outside() { "$work/exec" 500 5 >>"$work/$1.log"; }
inside() { (echo 0 >"$top/cgroup.procs"; outside "$@"); }

for round in $(seq "$rounds"); do
	outside none
	target/release/gpumap watch --json --cgroup "$top" >"$work/watch" 2>"$work/err" &
	watcher=$!
	until grep -q '"start"' "$work/watch"; do
		kill -0 "$watcher" || { cat "$work/err" >&2; exit 1; }
		sleep 0.1
	done
	sleep 0.3
	outside cgroup
	inside told
	rest
done

best() { sort -n "$work/$1.log" | head -n 1; }
none=$(best none)
row() {
	awk -v what="$2" -v ns="$(best "$1")" -v none="$none" 'BEGIN {
		printf "%-40s %8.0f ns %8.0f added %6.2f x\n", what, ns, ns - none, ns / none }'
}
row none 'nobody watches'
row cgroup 'watch --cgroup: a process outside'
row told 'watch --cgroup: told'
