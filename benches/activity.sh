#!/bin/bash
# What counting launches costs, all in one run and by turns: nobody, an empty probe behind
# the cmp, one with a return, `gpumap activity` with one launch of 64 timed, with streams and
# with all timed, launches outside of the cgroup that it counts, near and deep, an event for each
# launch as Datadog's agent sends it (its size, attached at the entry), and bpftrace. Then
# the readers' processor time at 100,000 launches a second, the start, and the memory.
#
#   benches/activity.sh [GPUMAP [ROUNDS]]
#
# Root, a writable cgroup2, gcc, clang, bpftool; bpftrace if it is there. x86-64. Nothing
# else should run meanwhile.
gpumap=$(realpath "${1:-target/dist/gpumap}")
rounds=${2:-5}
# shellcheck source=benches/common.sh
source "$(dirname "$0")/common.sh"
mkdir "$top"
pins=/sys/fs/bpf/gpumap-bench-$$
held=
end() {
	[ -z "$held" ] || { kill "$held"; wait "$held" 2>/dev/null || true; }
	rm -rf "$pins"
	find "$top" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
	finish
}
trap end EXIT

c=tests/support/c/cuda
library=$work/libcuda.so.1
gcc -O2 -w -pthread -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$library" $c/driver.c
gcc -O2 -w -pthread -o "$work/launch" benches/activity.c "$library" -Wl,-rpath,"$work"
gcc -O2 -w -pthread -o "$work/client" $c/client.c "$library" -Wl,-rpath,"$work"
gcc -O2 -Wall -o "$work/peer" benches/activity_peer.c
clang -O2 -g -target bpf -mcpu=v3 -Wall -isystem "/usr/include/$(gcc -print-multiarch)" -c -o "$work/peer.o" benches/activity_peer.bpf.c
mkdir -p "$pins"
bpftool prog loadall "$work/peer.o" "$pins/programs" pinmaps "$pins/maps" 2>/dev/null
entry=0x$(nm -D "$library" | awk '$3 == "cuLaunchKernel" { print $1 }')
behind=$(printf '0x%x' $((entry + 10)))

inside() { (echo 0 >"$top/counted/cgroup.procs" && exec "$@"); }
deep=$top/beside/a/b/c/d/e/f
mkdir -p "$top/counted" "$deep"
# Where a way's launches are made.
place_of() {
	case $1 in
	outside) echo "$top/beside" ;;
	outside_deep) echo "$deep" ;;
	*) echo "$top/counted" ;;
	esac
}
# The library is in use when gpumap begins.
mkfifo "$work/fifo"
(echo 0 >"$top/counted/cgroup.procs" && exec "$work/client" stop) <>"$work/fifo" >/dev/null &
held=$!
sleep 0.3

counts() { watch '"complete":true' "$gpumap" activity --json --cgroup "$top/counted" --every "$@"; }
# A reader of each kind, once it counts: $watcher.
begin_as() {
	case $1 in
	bare) ;;
	empty) watch ready "$work/peer" session:1 "$library" "$behind" ;;
	empty_return) watch ready "$work/peer" session:0 "$library" "$behind" ;;
	sampled | outside | outside_deep) counts "${2:-1s}" ;;
	streams) counts "${2:-1s}" -v ;;
	timed) counts "${2:-1s}" --time-one-in 1 ;;
	event) watch ready "$work/peer" "$pins/programs/send" "$library" "$entry" "$pins/maps/ring" ;;
	event_behind) watch ready "$work/peer" "$pins/programs/send" "$library" "$behind" "$pins/maps/ring" ;;
	bpftrace) watch Attaching bpftrace -e "uprobe:$library:cuLaunchKernel { @[pid, arg5] = count(); }"; sleep 1 ;;
	esac
}
ways=(bare empty empty_return sampled streams timed outside outside_deep event_behind event)
! command -v bpftrace >/dev/null || ways+=(bpftrace)

for threads in 1 2; do
	for ((round = 0; round < rounds; round++)); do
		for way in "${ways[@]}"; do
			begin_as "$way"
			# Rounds of 1,000 launches; at the entry each takes twenty times as long.
			many=100
			case $way in event | bpftrace) many=15 ;; esac
			(echo 0 >"$(place_of "$way")/cgroup.procs" && exec "$work/launch" "$threads" "$many") >>"$work/$way.$threads.log"
			rest
		done
	done
	base=$(median "empty.$threads") with_return=$(median "empty_return.$threads")
	for way in "${ways[@]}"; do
		awk -v way="$way" -v threads="$threads" -v ns="$(median "$way.$threads")" -v base="$base" -v both="$with_return" \
			'BEGIN { printf "%d thread(s), %-13s %7d ns a launch, %6.2f of the empty probe, %6.2f of one with return\n", threads, way, ns, ns / base, ns / both }'
	done
done

# Ticks of user and system time of a process, and its largest memory.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
seconds=8
for way in sampled timed event_behind event; do
	begin_as "$way" 2s
	from=$(ticks "$watcher")
	paced=$(inside "$work/launch" -r 100000 "$seconds")
	used=$(($(ticks "$watcher") - from))
	memory=$(awk '/VmHWM/ { print $2 }' "/proc/$watcher/status")
	awk -v way="$way" -v used="$used" -v s="$seconds" -v p="$paced" -v memory="$memory" \
		'BEGIN { printf "reader of %-13s %5.2f %% of a core, %d KiB at most; %s\n", way, used / s, memory, p }'
	rest
done
bpftool map dump pinned "$pins/maps/lost" | head -n 4

# By turns: what is in use is attached to, and let go at the end.
mkdir "$top/nobody"
for ((round = 0; round < 2 * rounds + 1; round++)); do
	for whom in nobody counted; do
		from=$(date +%s%N)
		"$gpumap" activity --json --once --every 1ms --cgroup "$top/$whom" >/dev/null
		echo $((($(date +%s%N) - from) / 1000)) >>"$work/start_$whom.log"
	done
done
for whom in nobody counted; do
	echo "a whole activity --once, library in use by $whom: best $(best start_$whom) us, median $(median start_$whom) us"
done
echo "of that, to attach and to let go: $(($(median start_counted) - $(median start_nobody))) us"
