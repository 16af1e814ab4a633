#!/bin/bash
# What an open of a device node costs while refusals are watched: nanoseconds of
# open and close, and the ratio to one that nobody watches. Needs root and cc, and a
# kernel that tells refusals (fexit or kprobes). Removes what it makes.
#   benches/denials.sh [ROUNDS]
# Each round measures everything in turn, so that a busy machine is busy for all.
# GPUMAP=FILE is the gpumap that watches, OPENS=N how many opens are timed.
set -eu
rounds=${1:-5}
cd "$(dirname "$0")/.."
opens=${OPENS:-200000}
gpumap=${GPUMAP:-}
work=$(mktemp -d)
watcher=
trap '[ -z "$watcher" ] || kill "$watcher"; rm -r "$work"' EXIT
[ -n "$gpumap" ] || { cargo build --profile dist -q; gpumap=target/dist/gpumap; }
cc -O2 -Wall -o "$work/open" benches/open.c

# The median of nine runs, as one line of a log.
timed() { "$work/open" "$2" "$opens" 9 | sort -n | sed -n 5p >>"$work/$1.log"; }

for _ in $(seq "$rounds"); do
	timed none /dev/null
	timed none-file /etc/passwd
	"$gpumap" denials --all-devices >"$work/told" &
	watcher=$!
	until grep -q 'watching with' "$work/told"; do sleep 0.1; done
	timed watched /dev/null
	timed watched-file /etc/passwd
	kill "$watcher"
	wait "$watcher" || true
	watcher=
done
sed -n '1p' "$work/told"
for log in none watched none-file watched-file; do
	printf '%-14s %s ns\n' "$log" "$(sort -n "$work/$log.log" | sed -n "$(((rounds + 1) / 2))p")"
done
