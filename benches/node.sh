#!/bin/bash
# Times the commands on a node with 5,000 cgroups, 100 device programs and 2,000
# processes, eight of them in a job, beside /bin/true and beside bare loops in C over the
# same files (tree.c). Needs root, cc and a writable cgroup2. Removes what it makes.
#   benches/node.sh [ROUNDS [GPUMAP…]]
# Each round times everything in turn, so that a busy machine is busy for all. Several
# programs, such as the builds before and after a change, are timed in turn too; without
# any, that of the packages is built. OUTER, INNER, PROGRAMS and PROCESSES size the node, GPUS is
# the root of its inventory.
rounds=${1:-7} gpus=${GPUS:-fixtures/gpu/four-h200}
programs=("${@:2}")
. "$(dirname "$0")/common.sh"

cc -O2 -Wall -o "$work/tree" benches/tree.c
if [ ${#programs[@]} -eq 0 ]; then
	packaging/build.sh dist "$PWD/target/static"
	programs=("target/static/$(uname -m)-unknown-linux-gnu/dist/gpumap")
fi
cgroups
crowd

# timed ROW COMMAND…: one more time of it.
timed() {
	local row=$1 start
	shift
	start=$EPOCHREALTIME
	"$@" >"$work/out" 2>"$work/err" || true
	echo $((${EPOCHREALTIME/./} - ${start/./})) >>"$work/$row.log"
}

# until_ready ROW COMMAND…: the time to its first line.
until_ready() {
	local row=$1 start
	shift
	start=$EPOCHREALTIME
	exec 3< <(exec "$@" 2>"$work/err")
	watcher=$!
	read -r _ <&3
	echo $((${EPOCHREALTIME/./} - ${start/./})) >>"$work/$row.log"
	exec 3<&-
	rest
}

round() {
	local number program
	timed true /bin/true
	timed scan "$work/tree" scan "$top"
	timed node "$work/tree" node "$top"
	for number in "${!programs[@]}"; do
		program=${programs[number]}
		local node=("$program" --cgroup-root "$top" --gpu-root "$gpus")
		timed "$number-version" "$program" --version
		timed "$number-cgroup" "${node[@]}" cgroup / --json
		timed "$number-check" "${node[@]}" check --cgroup / 'c 195:3'
		timed "$number-pid" "${node[@]}" pid "$pid" --json
		timed "$number-job" "${node[@]}" job 4711 --json
		timed "$number-leftovers" "${node[@]}" leftovers --job 4711 --json
		timed "$number-tree" "${node[@]}" cgroup -r / --json
		timed "$number-screen" "${node[@]}" node
		timed "$number-json" "${node[@]}" node --json
		timed "$number-audit" "${node[@]}" audit --json
		[ -n "${NO_WATCH:-}" ] || until_ready "$number-watch" "${node[@]}" watch --json
	done
}
for _ in $(seq "$rounds"); do round; done

# row WHAT LOG [PEER]: best and median, and the ratio to a peer's best.
row() {
	[ -e "$work/$2.log" ] || return 0
	awk -v what="$1" -v best="$(best "$2")" -v median="$(median "$2")" -v peer="$(best "${3:-$2}")" -v name="${3:-}" 'BEGIN {
		printf "%-26s best %8.2f ms, median %8.2f ms", what, best / 1e3, median / 1e3
		if (name != "") printf ", %5.2f × %s", best / peer, name
		print "" }'
}
row /bin/true true
row 'bare loop, cgroups' scan
row 'bare loop, whole node' node
for number in "${!programs[@]}"; do
	echo "${programs[number]}"
	row --version "$number-version" true
	row 'cgroup /' "$number-cgroup" true
	row 'check --cgroup /' "$number-check" true
	row 'pid PID --json' "$number-pid" true
	row 'job JOB --json' "$number-job" true
	row 'leftovers --job --json' "$number-leftovers" scan
	row 'cgroup -r / --json' "$number-tree" scan
	row node "$number-screen" node
	row 'node --json' "$number-json" node
	row 'audit --json' "$number-audit" node
	row 'watch, until it is ready' "$number-watch"
	if command -v /usr/bin/time >/dev/null; then
		/usr/bin/time -f 'node: peak memory %M KiB' "${programs[number]}" --cgroup-root "$top" \
			--gpu-root "$gpus" node --json 2>&1 >/dev/null | tail -n 1
	fi
done
