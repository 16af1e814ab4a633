# What the benchmarks share. A script that sources this runs in the root of the
# repository and has:
#   $work     a scratch directory
#   $top      the path of a cgroup of its own, which it makes
#   $watcher  the watch that runs, if any: see watch and rest
#   $crowd    the processes that tree.c started, if any: see crowd
# All of it is ended and removed when the script ends, however it ends.
# shellcheck shell=bash
set -eu
cd "$(dirname "$0")/.."
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
top=$root/gpumap-bench-$$
work=$(mktemp -d)
watcher=
crowd=
# The program, which is built if none is given.
gpumap=${gpumap:-${GPUMAP:-target/dist/gpumap}}
built() { [ "$gpumap" != target/dist/gpumap ] || cargo build --profile dist -q "$@"; }

# Ends the watch.
rest() {
	[ -z "$watcher" ] || { kill "$watcher"; wait "$watcher" 2>/dev/null || true; }
	watcher=
}

finish() {
	rest
	# The crowd ends with its parent, and its cgroups when all are gone.
	[ -z "$crowd" ] || { kill -9 "$crowd"; wait "$crowd" 2>/dev/null || true; }
	while grep -q 1 <(grep -h populated "$top/cgroup.events" 2>/dev/null | head -n 1); do sleep 0.1; done
	if [ -x "$work/tree" ]; then
		"$work/tree" clean "$top"
	else
		while ! rmdir "$top" 2>/dev/null && [ -d "$top" ]; do sleep 0.1; done
	fi
	rm -r "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# watch READY COMMAND...: starts a watch, which is there when it has printed READY.
watch() {
	local ready=$1
	shift
	# Not what the watch before this one said.
	: >"$work/watch"
	"$@" >"$work/watch" 2>"$work/err" &
	watcher=$!
	until grep -q "$ready" "$work/watch"; do
		kill -0 "$watcher" || { cat "$work/err" >&2; exit 1; }
		sleep 0.1
	done
	sleep 0.3
}
watch_gpumap() { watch '"start"' "$gpumap" watch --json "$@"; }

# The size of the node: OUTER × INNER cgroups.
outer=${OUTER:-50} inner=${INNER:-100} distinct=${PROGRAMS:-100} processes=${PROCESSES:-2000}

# Makes these cgroups, with device programs in some of them, below $top.
cgroups() { "$work/tree" make "$top" "$outer" "$inner" "$distinct"; }

# Starts the processes in them, eight of them in a job; $pid is one of the eight.
crowd() {
	"$work/tree" crowd "$top" "$outer" "$inner" "$processes" >"$work/crowd" &
	crowd=$!
	until grep -q ready "$work/crowd"; do sleep 0.1; done
	sleep 1
	pid=$(head -n 1 "$work/crowd")
}

# The least and the middle number of a log.
best() { sort -n "$work/$1.log" | head -n 1; }
median() { sort -n "$work/$1.log" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
