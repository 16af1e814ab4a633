#!/bin/bash
# Runs the tests under the kernels of other releases, in virtual machines, and prints a
# table: module × kernel, passed, failed, skipped. Everything in detail, and why a test was
# skipped, stands in target/machines/KERNEL/SHARD.
#
#   tests/machines.sh                     the tests that say most about a kernel: minutes
#   tests/machines.sh all                 every module of the tests kernel and watch: an hour or two
#   tests/machines.sh kernel::doctor …    these modules, or single tests of them
#
#   KERNELS="5.10 7.2"   these kernels alone, by the beginning of their numbers
#   JOBS=N               machines at a time (one for each processor)
#   MINUTES=N            what is not over by then is stopped, and has failed (chosen: 14)
#   PAGE=FILE            writes the table into this page too (docs/where-it-runs.md)
#
# The kernels are Debian's, and but for the chosen tests Ubuntu's as well. The oldest of
# Debian's has the devices controller of cgroup v1 beside cgroup2, the others cgroup2
# alone. Debian's newest kernel but one runs twice more, locked down for integrity and for
# confidentiality, with kernel::restricted alone.
#
# The machines run the binaries that cargo built here. They are emulated, so everything in
# them takes some twenty times as long. Needs root and the packages qemu-system-x86,
# qemu-system-common (or virtiofsd), busybox-static, cpio, xz-utils, python3; zstd for
# Ubuntu's kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$PWD/target/machines
. tests/machines/common.sh

# What says most about a kernel in the least time: programs in force, the decoder on
# generated programs, the ways of watch, a container below an overlay, doctor.
chosen=(
    kernel::program_lists::tree kernel::restricted::verdicts kernel::restricted::probes
    kernel::generated::writers_match_the_kernel kernel::generated::everything_matches_the_kernel
    kernel::doctor::with_all_rights kernel::doctor::user_namespace
    watch::environments::glibc watch::overlays::environments watch::moves::out_of_a_job_and_back
)
# Minutes that all machines together may take. The chosen tests take three on two
# processors that have little else to do.
chosen_minutes=14 all_minutes=1440

needs qemu-system-x86_64 busybox cpio xz python3

# The modules of a test binary, each once.
modules() {
    "$1" --list --format terse 2>/dev/null | sed -n 's/^\([^:]*\)::.*: test$/\1/p' | sort -u
}

mkdir -p "$into"
# All of them take three times as long if they were not optimised.
if [ "${1:-chosen}" != chosen ]; then
    needs zstd
    export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_TARGET_DIR=$PWD/target/optimised
fi
binaries cargo

case ${1:-chosen} in
chosen) wanted=("${chosen[@]}") minutes=$chosen_minutes cases=1 ;;
all)
    wanted=() minutes=$all_minutes cases=20
    for name in kernel watch; do
        for module in $(modules "${binary[$name]}"); do wanted+=("$name::$module"); done
    done ;;
*) wanted=("$@") minutes=$all_minutes cases=10 ;;
esac

minutes=${MINUTES:-$minutes}

# machine NAME DIR ARGUMENTS TEST…: runs tests under one kernel with these arguments.
machine() {
    local name=$1 dir=$2 arguments=$3 left=$((end - SECONDS)) hybrid=
    [ "$name" != "$oldest" ] || hybrid=1
    [ "$left" -gt 0 ] || { echo "machines.sh: no time was left to start $name" >&2; return; }
    OUT=$into/$name.out LIMIT=$left MEMORY=3072 CPUS=1 ARGUMENTS=$arguments HYBRID=$hybrid tests/machines/boot.sh "$dir" "
        cd '$PWD'
        # Once in memory, their pages keep nobody waiting for this machine.
        cat ${binary[*]} ${CARGO_TARGET_DIR:-target}/debug/gpumap > /dev/null
        export GPUMAP_REQUIRE_ROOT=1 GPUMAP_CASES=$cases GPUMAP_TEST_SLOWER=20
        $(tests "${@:4}")
        true" || echo "machines.sh: the machine $name did not end well" >&2
}

# The same beside the others, as soon as there is room.
names=() running=0
start() {
    names+=("$1")
    rm -rf "${into:?}/$1.out"
    if [ "$running" -ge "${JOBS:-$(nproc)}" ]; then
        wait -n
        running=$((running - 1))
    fi
    machine "$@" &
    running=$((running + 1))
}

tests/machines/kernels.sh "$into/kernels" > "$into/found"
read -r oldest _ < "$into/found"
: > "$into/ubuntu"
fetch_ubuntus() { DISTRIBUTION=ubuntu tests/machines/kernels.sh "$into/kernels" > "$into/ubuntu"; }
if [ "${1:-chosen}" != chosen ] && ! fetch_ubuntus; then
    echo "machines.sh: Ubuntu's kernels cannot be had" >&2
    # Those that are asked for may be Debian's.
    [ -n "${KERNELS:-}" ] || exit 1
fi
end=$((SECONDS + minutes * 60))
while read -r release dir; do
    ! is_wanted "$release" || start "$release" "$dir" "" "${wanted[@]}"
done < <(cat "$into/found" && sed 's/ /-ubuntu /' "$into/ubuntu")
[ ${#names[@]} -gt 0 ] || { echo "machines.sh: no kernel was found" >&2; exit 1; }
read -r release dir < <(tail -2 "$into/found")
if is_wanted "$release" && [[ ${1:-all} == all || " $* " == *" kernel::restricted "* ]]; then
    closed="sysctl.kernel.unprivileged_bpf_disabled=2 sysctl.kernel.yama.ptrace_scope=3"
    start "$release-integrity" "$dir" "lockdown=integrity $closed" kernel::restricted
    start "$release-confidentiality" "$dir" "lockdown=confidentiality $closed" kernel::restricted
fi
wait
status=0
[ "$SECONDS" -lt "$end" ] || {
    echo "machines.sh: the machines were stopped after $minutes minutes (MINUTES)" >&2
    status=1
}
python3 tests/machines/table.py ${PAGE:+--page "$PAGE"} "$into" "${names[@]}" || status=1
exit $status
