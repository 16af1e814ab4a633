#!/bin/bash
# Runs the tests on aarch64, in emulated machines with Debian's kernels, and prints a table:
# module × kernel, passed, failed, skipped (as tests/machines.sh does for x86-64).
#
#   tests/machines/arm64.sh                      the tests that say most about a kernel
#   tests/machines/arm64.sh kernel::processes …  these modules, or single tests of them
#
#   KERNELS="6.12"   these kernels alone, by the beginning of their numbers
#   LIMIT=S          seconds that a machine may take (3600)
#   PAGE=FILE        writes the table into this page too (docs/where-it-runs.md)
#
# The tests are built by packaging/cross.sh. The machines have a root directory of Debian for
# arm64, in target/arm64. Needs root and the packages mmdebstrap, qemu-system-arm,
# qemu-system-common (or virtiofsd), cpio, xz-utils, python3.
set -euo pipefail
cd "$(dirname "$0")/../.."
into=$PWD/target/arm64
target=aarch64-unknown-linux-gnu

chosen=(
    kernel::program_lists::tree kernel::observation
    kernel::generated::writers_match_the_kernel kernel::generated::everything_matches_the_kernel
    kernel::doctor::with_all_rights watch::environments::glibc watch::probe_places
    watch::gpu_opens watch::overlays::environments
)
wanted=("${@:-${chosen[@]}}")

for program in qemu-system-aarch64 mmdebstrap cpio xz python3; do
    command -v "$program" >/dev/null || { echo "arm64.sh: there is no $program" >&2; exit 1; }
done

# A root directory with what the tests call. Nothing of it has been run: what its packages
# would do when they are installed is done here.
make_root() {
    local root=$1 packages
    packages=base-files,base-passwd,bash,dash,busybox-static,coreutils,findutils,grep,sed,gawk,diffutils,tar,gzip
    packages+=,perl-base,util-linux,mount,procps,login,passwd,libc-bin,hostname,iproute2,tzdata
    packages+=,gcc,libc6-dev,musl-tools,python3,bpftool,strace,runc,crun
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Sandbox::User "root"' trixie "$root"
    cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
    cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
    cp "$root/usr/share/libc-bin/nsswitch.conf" "$root/etc/"
    ln -sf dash "$root/usr/bin/sh"
    ln -sf gawk "$root/usr/bin/awk"
    ln -sf gcc "$root/usr/bin/cc"
}

mkdir -p "$into"
if [ ! -d "$into/root" ]; then
    rm -rf "$into/root.new"
    make_root "$into/root.new"
    mv "$into/root.new" "$into/root"
fi

declare -A binary
cargo fetch --locked
packaging/cross.sh cargo test --no-run --locked --target "$target" --test kernel --test watch \
    --message-format=json-render-diagnostics | python3 -c '
import json, sys
for line in sys.stdin:
    built = json.loads(line)
    if built.get("executable") and built["target"]["kind"] == ["test"]:
        print(built["target"]["name"], built["executable"])
' > "$into/binaries"
while read -r name path; do binary[$name]=$path; done < "$into/binaries"

# The commands that run these modules and tests of both binaries.
tests() {
    local name module names
    for name in kernel watch; do
        names=
        for module in "${wanted[@]}"; do
            case $module in
            "$name"::*) names="$names ${module#*::}" ;;
            esac
        done
        [ -z "$names" ] || echo "echo '== $name'; ${binary[$name]} --show-output --test-threads 2$names"
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

# Kernels with pages of 4 KiB, and one with pages of 16 KiB.
export ARCHITECTURE=arm64
{
    RELEASES="bookworm trixie sid" tests/machines/kernels.sh "$into/kernels" | sed 's/$/ arm64/'
    RELEASES=trixie FLAVOUR=arm64-16k tests/machines/kernels.sh "$into/kernels-16k" | sed 's/$/ arm64-16k/'
} > "$into/found"
names=()
while read -r release dir kind; do
    is_wanted "$release" || continue
    name=$release-$kind
    names+=("$name")
    rm -rf "${into:?}/$name.out"
    MACHINE=aarch64 ROOT=$into/root OUT=$into/$name.out LIMIT=${LIMIT:-3600} MEMORY=3072 tests/machines/boot.sh "$dir" "
        cd '$PWD'
        export GPUMAP_REQUIRE_ROOT=1 GPUMAP_CASES=1 GPUMAP_TEST_SLOWER=20
        $(tests)
        true" || echo "arm64.sh: the machine $name did not end well" >&2
done < "$into/found"
[ ${#names[@]} -gt 0 ] || { echo "arm64.sh: no kernel was found" >&2; exit 1; }
python3 tests/machines/table.py ${PAGE:+--page "$PAGE"} "$into" "${names[@]}"
