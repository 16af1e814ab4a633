#!/bin/bash
# Lints the packages of a directory, installs them in fresh roots, uses them there
# as a user, and removes them. Needs root, and what packaging/README.md names.
# usage: packaging/test.sh [DIR]   (default: target/release-files)
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(realpath "${1:-target/release-files}")
suite=${GPUMAP_TEST_SUITE:-bookworm}

[ "$(id -u)" = 0 ] || { echo "test.sh: run as root: it makes roots of other systems" >&2; exit 2; }
for tool in lintian rpm rpmlint debootstrap; do
    command -v "$tool" >/dev/null || { echo "test.sh: $tool is missing; install it with: apt-get install $tool" >&2; exit 2; }
done
deb=$(echo "$files"/gpumap_*_amd64.deb)
rpm=$(echo "$files"/gpumap-*.x86_64.rpm)

scratch=$(mktemp -d /var/tmp/gpumap-packages.XXXXXX)
trap 'umount "$scratch/root/proc" 2>/dev/null || true; rm -rf --one-file-system "$scratch"' EXIT

step() { printf '%s\n' "-- $1"; }
fail() { echo "test.sh: $1" >&2; exit 1; }

step "no path of the builder is in the binary"
dpkg-deb -x "$deb" "$scratch/unpacked"
binary=$scratch/unpacked/usr/bin/gpumap
for path in "$HOME/.cargo" "$PWD"; do
    if grep -qaF "$path/" "$binary"; then
        fail "the binary names $path"
    fi
done
if readelf -d "$binary" | grep -q NEEDED; then
    fail "the binary needs shared libraries"
fi

step "lintian"
lintian --allow-root --fail-on error,warning "$deb"

step "rpmlint"
rpmlint --strict -c packaging/rpm/rpmlint.toml "$rpm" >"$scratch/rpmlint" || {
    cat "$scratch/rpmlint" >&2
    fail "rpmlint"
}

step "the same packages again have the same bytes"
packaging/release.sh --binary "$binary" --output "$scratch/again" >/dev/null
(cd "$scratch/again" && sha256sum -c --quiet "$files/SHA256SUMS")

step "debootstrap $suite"
root=$scratch/root
debootstrap --variant=minbase "$suite" "$root" >"$scratch/debootstrap.log" 2>&1 || {
    tail "$scratch/debootstrap.log" >&2
    exit 1
}
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
chroot "$root" useradd --no-create-home somebody
list_of() { (cd "$1" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp \) -prune -o -print | sort); }
list_of "$root" >"$scratch/before"

step "install, run as a user, remove"
cp "$deb" "$root/tmp/gpumap.deb"
chroot "$root" dpkg -i /tmp/gpumap.deb >/dev/null
# The README's first command, of the program that was installed.
command=$(sed -n 's/^cargo run --quiet -- /gpumap /p' README.md)
mkdir -p "$root/tmp/try"
cp --parents fixtures/nodes/slurm-jobs.json fixtures/audit/double-grant/clean.json "$root/tmp/try/"
chroot "$root" su somebody -s /bin/sh -c "cd /tmp/try && $command" >"$scratch/said"
grep -q 'slurm job 4714' "$scratch/said" || fail "'$command' did not show job 4714"
chroot "$root" su somebody -s /bin/sh -c "gpumap --from /tmp/try/fixtures/nodes/slurm-jobs.json audit --list" >/dev/null
# The configuration that is installed is read, and excuses nothing.
chroot "$root" gpumap --from /tmp/try/fixtures/audit/double-grant/clean.json audit --config /etc/gpumap.toml >/dev/null ||
    fail "the installed configuration is not read, or changes an audit"
[ -s "$root/usr/share/bash-completion/completions/gpumap" ] || fail "no completions"
[ -s "$root/usr/share/man/man1/gpumap.1.gz" ] || fail "no manual"
chroot "$root" dpkg -P gpumap >/dev/null 2>&1
list_of "$root" >"$scratch/after"
diff "$scratch/before" "$scratch/after" || fail "dpkg -P left something behind"

step "rpm: install, compare, keep a changed configuration, remove"
tree=$scratch/rpm
mkdir -p "$tree"
rpm --root "$tree" --initdb
rpm -K --nosignature "$rpm" >/dev/null
rpm --root "$tree" -i --nodeps --ignoreos "$rpm"
rpm --root "$tree" -V --nodeps gpumap
"$tree/usr/bin/gpumap" --from fixtures/nodes/slurm-jobs.json >/dev/null
[ "$(rpm -qp --configfiles "$rpm")" = /etc/gpumap.toml ] || fail "the rpm's configuration file is not one"
rpm --root "$tree" -e gpumap
left=$(find "$tree/usr" "$tree/etc" ! -type d 2>/dev/null | head)
[ -z "$left" ] || fail "rpm -e left $left"

step "the archive"
tar -xzf "$files"/gpumap-*-linux.tar.gz -C "$scratch"
"$scratch"/gpumap-*-linux/gpumap --version
(cd "$files" && sha256sum -c --quiet SHA256SUMS)
grep -q '"name": "aya"' "$files"/*.cdx.json || fail "the bill of materials does not name aya"
if grep -qF "$PWD" "$files"/*.cdx.json; then fail "the bill of materials names $PWD"; fi
echo "packages: all as it should be"
