#!/bin/bash
# Runs the tests under the kernels of other releases, in virtual machines, and prints a
# table: module × kernel, passed, failed, skipped. Everything in detail, and why a test was
# skipped, stands in target/machines/KERNEL/SHARD.
#
#   tests/machines.sh                     the modules that say most about a kernel
#   tests/machines.sh all                 every module of the tests kernel and watch
#   tests/machines.sh kernel::doctor …    these modules
#
#   KERNELS="5.10 7.2"   these kernels alone, by the beginning of their numbers
#   JOBS=N               machines at a time (one for each processor)
#
# The machines run the binaries that cargo built here. They are emulated, so everything in
# them takes some twenty times as long. Needs root and the packages qemu-system-x86,
# qemu-system-common (or virtiofsd), busybox-static, cpio, xz-utils, python3.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$PWD/target/machines

# What says most about a kernel in the least time.
chosen=(
    kernel::program_lists kernel::generated kernel::scanner
    watch::moves watch::overlays
)
# Seconds that one machine may take.
chosen_seconds=1800 all_seconds=14400

for program in qemu-system-x86_64 busybox cpio xz python3; do
    command -v "$program" >/dev/null || { echo "machines.sh: there is no $program" >&2; exit 1; }
done

# The modules of a test binary, each once.
modules() {
    "$1" --list --format terse 2>/dev/null | sed -n 's/^\([^:]*\)::.*: test$/\1/p' | sort -u
}

mkdir -p "$into"
cargo test --no-run --locked --test kernel --test watch --message-format=json-render-diagnostics 2>/dev/null |
    python3 -c '
import json, sys
for line in sys.stdin:
    built = json.loads(line)
    if built.get("executable") and built["target"]["kind"] == ["test"]:
        print(built["target"]["name"], built["executable"])
' > "$into/binaries"
declare -A binary
while read -r name path; do binary[$name]=$path; done < "$into/binaries"

case ${1:-chosen} in
chosen) wanted=("${chosen[@]}") limit=$chosen_seconds cases=3 ;;
all)
    wanted=() limit=$all_seconds cases=20
    for name in kernel watch; do
        for module in $(modules "${binary[$name]}"); do wanted+=("$name::$module"); done
    done ;;
*) wanted=("$@") limit=$all_seconds cases=10 ;;
esac

# The tests of one machine: all wanted modules of both binaries.
tests() {
    local name module names
    for name in kernel watch; do
        names=
        for module in "${wanted[@]}"; do
            [ "${module%%::*}" != "$name" ] || names="$names ${module#*::}::"
        done
        [ -n "$names" ] || continue
        echo "echo '== $name'; ${binary[$name]} --show-output --test-threads 2$names"
    done
}

# Whether KERNELS names this release, by as many of its numbers as it likes.
is_wanted() {
    local kernel
    [ -n "${KERNELS:-}" ] || return 0
    for kernel in $KERNELS; do
        case $1. in "$kernel".*) return 0 ;; esac
    done
    return 1
}

# Runs the tests under one kernel.
machine() {
    local release=$1 dir=$2
    rm -rf "${into:?}/$release.out"
    OUT=$into/$release.out LIMIT=$limit MEMORY=3072 CPUS=1 tests/machines/boot.sh "$dir" "
        ulimit -l unlimited
        cd '$PWD'
        export GPUMAP_REQUIRE_ROOT=1 GPUMAP_CASES=$cases GPUMAP_TEST_SLOWER=20
        $(tests)
        true" || echo "machines.sh: the machine with $release did not end well" >&2
}

tests/machines/kernels.sh "$into/kernels" > "$into/found"
releases=()
running=0
while read -r release dir; do
    is_wanted "$release" || continue
    releases+=("$release")
    if [ "$running" -ge "${JOBS:-$(nproc)}" ]; then
        wait -n
        running=$((running - 1))
    fi
    machine "$release" "$dir" &
    running=$((running + 1))
done < "$into/found"
wait
[ ${#releases[@]} -gt 0 ] || { echo "machines.sh: no kernel was found" >&2; exit 1; }
python3 tests/machines/table.py "$into" "${releases[@]}"
