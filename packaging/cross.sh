#!/bin/bash
# packaging/cross.sh COMMAND…: runs a command in this directory with rustc, cargo and a
# linker for aarch64, in a tree of Debian 13 (with backports' Rust) that has them:
#
#   cargo fetch --locked
#   packaging/cross.sh packaging/build.sh dist target/static aarch64-unknown-linux-gnu
#
# The tree is made once, in target/cross. Of this machine's files it has this directory and
# cargo's downloads. Needs root, mmdebstrap and a mirror of Debian; not the right processor.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
tree=$PWD/target/cross

# The mirror that this machine's apt uses.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1
}

packages() {
    local package
    for package in cargo rustc libstd-rust-dev libstd-rust-dev:arm64; do printf '%s/trixie-backports,' "$package"; done
    echo gcc,libc6-dev,gcc-aarch64-linux-gnu,libc6-dev:arm64,ca-certificates
}

if [ ! -d "$tree" ]; then
    from=$(mirror)
    [ -n "$from" ] || { echo "cross.sh: apt names no mirror of Debian" >&2; exit 1; }
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keys" ] || { echo "cross.sh: there is no $keys (package debian-archive-keyring)" >&2; exit 1; }
    rm -rf "$tree.new"
    mkdir -p target
    mmdebstrap --quiet --variant=apt --architectures=amd64,arm64 --include="$(packages)" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Sandbox::User "root"' trixie "$tree.new" \
        "deb [signed-by=$keys] $from trixie main" "deb [signed-by=$keys] $from trixie-backports main"
    mv "$tree.new" "$tree"
fi

cargo=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$tree$PWD" "$tree/root/.cargo"
export cargo tree
# What is mounted goes with the command.
exec unshare --mount bash -ec '
    mount --bind "$PWD" "$tree$PWD"
    mount --bind "$cargo" "$tree/root/.cargo"
    mount --rbind /dev "$tree/dev"
    mount -t proc proc "$tree/proc"
    exec chroot "$tree" env -i HOME=/root PATH=/usr/bin:/bin CARGO_NET_OFFLINE=true CARGO_INCREMENTAL=0 \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        sh -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"
' bash "$@"
