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
cargo build --release --bench observe
observe=$(ls -t target/release/deps/observe-* | grep -v '\.d$' | head -n 1)
"$work/tree" make "$top" 50 100 100

for round in $(seq "$rounds"); do
	"$work/tree" scan "$top" | tee -a "$work/bare.log"
	"$observe" "$top" -r 1 | tee -a "$work/gpumap.log"
done
best() { awk '$2 ~ /^ms/ { print $1 }' "$1" | sort -n | head -n 1; }
bare=$(best "$work/bare.log") gpumap=$(best "$work/gpumap.log")
awk -v a="$bare" -v b="$gpumap" 'BEGIN { printf "best of each: bare %.2f ms, gpumap %.2f ms, ratio %.2f\n", a, b, b / a }'
