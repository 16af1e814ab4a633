#!/bin/bash
# Times refreshes of a resident gpumap on 5,000 cgroups with 100 device programs
# and 2,000 processes, by /proc and queries and by iterators. Needs root, cc and a writable
# cgroup2. Removes what it makes.
#   benches/resident.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-15}
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

# Descriptors besides the standard ones: 12 as tree.c has it, or 3.
sed "s/i < 12; i++)/i < ${DESCRIPTORS:-12}; i++)/" benches/tree.c >"$work/tree.c"
cc -O2 -Wall -o "$work/tree" "$work/tree.c"
bench=$(cargo bench --no-run --bench resident --message-format=json 2>/dev/null |
	sed -n 's/.*"executable":"\([^"]*resident[^"]*\)".*/\1/p' | tail -n 1)
"$work/tree" make "$top" 50 100 100
"$work/tree" crowd "$top" 50 100 2000 >"$work/crowd" &
crowd=$!
until grep -q ready "$work/crowd"; do sleep 0.1; done
sleep 1
for engine in proc iterators proc iterators; do
	"$bench" "$engine" "$top" "$rounds"
done
