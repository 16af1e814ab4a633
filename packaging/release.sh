#!/bin/bash
# Makes the files of a release: see packaging/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'END'
usage: packaging/release.sh [--machine MACHINE] [--profile PROFILE] [--binary FILE] [--output DIR]
       packaging/release.sh [--machine MACHINE] --check

  --machine MACHINE  x86_64, or aarch64: built by packaging/cross.sh on another machine
                     [default: x86_64]
  --profile PROFILE  cargo profile of the build [default: dist]
  --binary FILE      package this static binary instead of building one
  --output DIR       where the files go [default: target/release-files, for aarch64
                     target/release-files-aarch64]
  --check            build the binary in two directories and compare the bytes
END
}

machine=x86_64
profile=dist
binary=
output=
check=
while [ $# -gt 0 ]; do
    case $1 in
    --machine) machine=$2 && shift 2 ;;
    --profile) profile=$2 && shift 2 ;;
    --binary) binary=$(realpath "$2") && shift 2 ;;
    --output) output=$2 && shift 2 ;;
    --check) check=1 && shift ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
done

# What Debian calls the machine.
case $machine in
x86_64) debian=amd64 output=${output:-target/release-files} ;;
aarch64) debian=arm64 output=${output:-target/release-files-aarch64} ;;
*) usage >&2 && exit 2 ;;
esac
target=$machine-unknown-linux-gnu
# What builds for it, and what runs its programs.
cross=() emulator=()
if [ "$machine" != "$(uname -m)" ]; then
    cross=(packaging/cross.sh)
    emulator=("qemu-$machine-static")
fi

need() {
    command -v "$1" >/dev/null && return
    echo "release.sh: $1 is missing; install it with: $2" >&2
    exit 2
}

build() {
    [ ${#cross[@]} = 0 ] || cargo fetch --locked
    "${cross[@]}" packaging/build.sh "$profile" "$1" "$target"
}

# Where it leaves the binary.
built() { echo "$1/$target/$profile/gpumap"; }

if [ -n "$check" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    for copy in one another; do
        mkdir "$scratch/$copy"
        git archive HEAD | tar -x -C "$scratch/$copy"
        (cd "$scratch/$copy" && build "$scratch/$copy/target")
    done
    sha256sum "$(built "$scratch/one/target")" "$(built "$scratch/another/target")"
    cmp "$(built "$scratch/one/target")" "$(built "$scratch/another/target")"
    echo "both builds are the same"
    exit
fi

[ ${#emulator[@]} = 0 ] || need "${emulator[0]}" 'apt-get install qemu-user-static'
need cargo-deb 'cargo install --locked cargo-deb@3.8.0'
need cargo-generate-rpm 'cargo install --locked cargo-generate-rpm@0.21.1'
need cargo-cyclonedx 'cargo install --locked cargo-cyclonedx@0.5.9'

# Times in the packages are that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
if [ -z "$binary" ]; then
    build "$PWD/target/static"
    binary=$(built "$PWD/target/static")
fi

# Everything that the packages take, under the names that Cargo.toml gives.
stage=target/package-files
rm -rf "$stage"
mkdir -p "$stage/man" "$stage/completions" "$output"
install -m 755 "$binary" "$stage/gpumap"
for page in man/*.1; do
    gzip -9n <"$page" >"$stage/man/$(basename "$page").gz"
done
gzip -9n <CHANGELOG.md >"$stage/changelog.gz"
maintainer=$(sed -n 's/^maintainer = "\(.*\)"$/\1/p' Cargo.toml)
printf 'gpumap (%s-1) unstable; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$stage/changelog.Debian.gz"
# README, SECURITY and what they lead to. A link to what no package has becomes its text.
mkdir -p "$stage/doc/docs"
for page in README.md SECURITY.md docs/{admin-guide,how-it-works,threat-model,tour,where-it-runs}.md; do
    sed -E 's|!\[([^]]*)\]\(images/[^)]*\)|(picture: \1)|g
        s|\[([^]]*)\]\((\.\./)?(LICENSE-[A-Z]+\|CONTRIBUTING\.md\|man/[^)]*\|(benches\|packaging\|fuzz\|fixtures)/[^)]*)\)|\1|g' \
        <"$page" >"$stage/doc/$page"
done
"${emulator[@]}" "$stage/gpumap" completions bash >"$stage/completions/gpumap"
"${emulator[@]}" "$stage/gpumap" completions zsh >"$stage/completions/_gpumap"
"${emulator[@]}" "$stage/gpumap" completions fish >"$stage/completions/gpumap.fish"

cargo deb --no-build --no-strip --locked --offline --target "$target" --output "$output/gpumap_$version-1_$debian.deb"
cargo generate-rpm --arch "$machine" --output "$output/gpumap-$version-1.$machine.rpm"

archive=gpumap-$version-$machine-linux
rm -rf "target/$archive"
mkdir -p "target/$archive"
cp -r "$stage/gpumap" "$stage/man" "$stage/completions" "$stage"/doc/* examples packaging/gpumap.toml \
    CHANGELOG.md LICENSE-MIT LICENSE-APACHE "target/$archive"
tar -C target --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w \
    -c "$archive" | gzip -9n >"$output/$archive.tar.gz"
rm -rf "target/$archive"

# It names the directory of the build; the release has none.
cargo cyclonedx --quiet --format json --target "$target" --override-filename gpumap-sbom
sed "s|$PWD|/build/gpumap|g" gpumap-sbom.json >"$output/gpumap-$version.cdx.json"
rm gpumap-sbom.json

(cd "$output" && sha256sum -- *.tar.gz *.deb *.rpm *.cdx.json >SHA256SUMS && cat SHA256SUMS)
