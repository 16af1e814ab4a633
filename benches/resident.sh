#!/bin/bash
# Times refreshes of a resident gpumap on 5,000 cgroups with 100 device programs
# and 2,000 processes, by /proc and queries and by iterators. Needs root, cc and a writable
# cgroup2. Removes what it makes.
#   benches/resident.sh [ROUNDS]
rounds=${1:-15}
. "$(dirname "$0")/common.sh"

# Descriptors besides the standard ones: 12 as tree.c has it, or 3.
sed "s/i < 12; i++)/i < ${DESCRIPTORS:-12}; i++)/" benches/tree.c >"$work/tree.c"
cc -O2 -Wall -o "$work/tree" "$work/tree.c"
bench=$(cargo bench --no-run --bench resident --message-format=json 2>/dev/null |
	sed -n 's/.*"executable":"\([^"]*resident[^"]*\)".*/\1/p' | tail -n 1)
cgroups
crowd
for engine in proc iterators proc iterators; do
	"$bench" "$engine" "$top" "$rounds"
done
