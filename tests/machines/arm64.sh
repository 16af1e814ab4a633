#!/bin/bash
# Runs the tests on aarch64, in emulated machines with Debian's kernels and one of Ubuntu's,
# and prints a table: module × kernel, passed, failed, skipped (as tests/machines.sh does for
# x86-64).
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
# qemu-system-common (or virtiofsd), cpio, xz-utils, zstd, curl, python3.
set -euo pipefail
cd "$(dirname "$0")/../.."
into=$PWD/target/arm64
. tests/machines/common.sh
target=aarch64-unknown-linux-gnu

chosen=(
    kernel::program_lists::tree kernel::observation
    kernel::generated::writers_match_the_kernel kernel::generated::everything_matches_the_kernel
    kernel::doctor::with_all_rights watch::environments::glibc watch::probe_places
    watch::gpu_opens watch::overlays::environments
)
wanted=("${@:-${chosen[@]}}")

needs qemu-system-aarch64 mmdebstrap cpio xz zstd curl python3

# A root directory with what the tests call. Nothing of it has been run: what its packages
# would do when they are installed is done here.
make_root() {
    local root=$1 packages
    packages=base-files,base-passwd,bash,dash,busybox-static,coreutils,findutils,grep,sed,gawk,diffutils,tar,gzip
    packages+=,perl-base,util-linux,mount,procps,login,passwd,libc-bin,hostname,iproute2,tzdata
    packages+=,clang,gcc,libc6-dev,musl-tools,python3,bpftool,strace,runc,crun,tmux,ncurses-base
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Sandbox::User "root"' trixie "$root"
    cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
    cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
    cp "$root/usr/share/libc-bin/nsswitch.conf" "$root/etc/"
    # Tests mount what they serve there.
    mkdir -p "$root/mnt"
    rmdir "$root/var/run" "$root/var/lock"
    ln -s /run "$root/var/run"
    ln -s /run/lock "$root/var/lock"
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

cargo fetch --locked
settings=(CARGO_BUILD_TARGET=$target)
[ $# -eq 0 ] || settings+=(CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_TARGET_DIR=$PWD/target/optimised)
binaries packaging/cross.sh env "${settings[@]}" cargo

# Kernels with pages of 4 KiB, one with pages of 16 KiB, and Ubuntu's with pages of 64 KiB,
# as machines with NVIDIA's Grace have them.
export ARCHITECTURE=arm64
{
    RELEASES="bookworm trixie sid" tests/machines/kernels.sh "$into/kernels" | sed 's/$/ arm64/'
    RELEASES=trixie FLAVOUR=arm64-16k tests/machines/kernels.sh "$into/kernels-16k" | sed 's/$/ arm64-16k/'
    DISTRIBUTION=ubuntu RELEASES=resolute FLAVOUR=generic-64k tests/machines/kernels.sh "$into/kernels-64k" |
        sed 's/$/ arm64-64k/'
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
        $(tests "${wanted[@]}")
        true" || echo "arm64.sh: the machine $name did not end well" >&2
done < "$into/found"
[ ${#names[@]} -gt 0 ] || { echo "arm64.sh: no kernel was found" >&2; exit 1; }
python3 tests/machines/table.py ${PAGE:+--page "$PAGE"} "$into" "${names[@]}"
