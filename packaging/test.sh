#!/bin/bash
# Lints the packages of a directory, installs them in fresh roots, uses them there
# as a user, and removes them. Needs root, and what packaging/README.md names.
# usage: packaging/test.sh [DIR]   (default: target/release-files)
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(realpath "${1:-target/release-files}")
# A current distribution and one of five years ago (glibc 2.31).
suites=${GPUMAP_TEST_SUITES:-bookworm bullseye}

[ "$(id -u)" = 0 ] || { echo "test.sh: run as root: it makes roots of other systems" >&2; exit 2; }
for tool in lintian rpm rpmlint debootstrap buildah python3; do
    command -v "$tool" >/dev/null || { echo "test.sh: $tool is missing; install it with: apt-get install $tool" >&2; exit 2; }
done
deb=$(echo "$files"/gpumap_*_amd64.deb)
rpm=$(echo "$files"/gpumap-*.x86_64.rpm)

scratch=$(mktemp -d /var/tmp/gpumap-packages.XXXXXX)
trap 'for root in "$scratch"/root.*; do umount "$root/proc" 2>/dev/null || true; done; rm -rf --one-file-system "$scratch"' EXIT

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

step "no link of the documents is dead, hooks are executable, units are installed"
doc=$scratch/unpacked/usr/share/doc/gpumap
find "$doc" -name '*.md' | while read -r page; do
    # A page may have no link, or none to a file.
    { grep -oE '\]\([^)#]+' "$page" || true; } | sed 's/^..//; /^http/d' | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >"$scratch/dead"
[ ! -s "$scratch/dead" ] || fail "links that lead nowhere: $(cat "$scratch/dead")"
[ -s "$doc/docs/threat-model.md" ] && [ -s "$doc/docs/admin-guide.md" ] || fail "a document is missing"
for hook in prolog epilog task-prolog health-check; do
    [ -x "$doc/examples/slurm/$hook.sh" ] || fail "$hook.sh is not executable"
done
for unit in examples/systemd/*; do
    [ -s "$scratch/unpacked/usr/lib/systemd/system/$(basename "$unit")" ] || fail "$unit is not installed"
    # Not -q: rpm would be ended by its pipe.
    rpm -qpl "$rpm" | grep -x "/usr/lib/systemd/system/$(basename "$unit")" >/dev/null || fail "the rpm has no $unit"
done
[ -z "$(find "$scratch/unpacked/etc/systemd" 2>/dev/null)" ] || fail "a unit is enabled"

step "no variable of tests is read"
! grep -q GPUMAP_TEST_ "$binary" || fail "the binary reads variables of tests"

step "the same packages again have the same bytes"
packaging/release.sh --binary "$binary" --output "$scratch/again" >/dev/null
(cd "$scratch/again" && sha256sum -c --quiet "$files/SHA256SUMS")

list_of() { (cd "$1" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp \) -prune -o -print | sort); }

# The README's first command, of a program that is installed.
command=$(sed -n 's/^cargo run -- /gpumap /p' README.md)

# Runs a command line in a root as a user who has no rights.
as_user() { chroot "$1" su somebody -s /bin/sh -c "cd /tmp/try && $2"; }

# Makes a bare root of a distribution, installs the .deb there, uses it and removes it.
in_root() {
    local suite=$1 root=$scratch/root.$1
    step "debootstrap $suite"
    debootstrap --variant=minbase "$suite" "$root" >"$scratch/debootstrap.log" 2>&1 || {
        tail "$scratch/debootstrap.log" >&2
        exit 1
    }
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    mount -t proc proc "$root/proc"
    chroot "$root" useradd --no-create-home somebody
    list_of "$root" >"$scratch/before"

    step "$suite: install, run as a user, remove"
    cp "$deb" "$root/tmp/gpumap.deb"
    chroot "$root" dpkg -i /tmp/gpumap.deb >/dev/null
    mkdir -p "$root/tmp/try"
    cp --parents fixtures/nodes/slurm-jobs.json fixtures/audit/double-grant/clean.json "$root/tmp/try/"
    as_user "$root" "$command" >"$scratch/said"
    grep -q 'slurm job 4714' "$scratch/said" || fail "'$command' did not show job 4714"
    as_user "$root" "gpumap --from fixtures/nodes/slurm-jobs.json audit --list" >/dev/null
    # A bare root lacks much, which is an answer: 1 and 3, and no failure.
    as_user "$root" "gpumap doctor" >"$scratch/said" || [ $? != 2 ] || fail "doctor fails"
    grep -q 'cgroup.hierarchy' "$scratch/said" || fail "doctor does not speak of cgroups"
    # The configuration that is installed is read, and excuses nothing.
    chroot "$root" gpumap --from /tmp/try/fixtures/audit/double-grant/clean.json audit --config /etc/gpumap.toml >/dev/null ||
        fail "the installed configuration is not read, or changes an audit"
    [ -s "$root/usr/share/bash-completion/completions/gpumap" ] || fail "no completions"
    [ -s "$root/usr/share/man/man1/gpumap.1.gz" ] || fail "no manual"
    chroot "$root" dpkg -P gpumap >/dev/null 2>&1
    list_of "$root" >"$scratch/after"
    diff "$scratch/before" "$scratch/after" || fail "dpkg -P left something behind"

    step "$suite: the archive"
    mkdir "$root/tmp/archive"
    tar -xzf "$files"/gpumap-*-linux.tar.gz -C "$root/tmp/archive"
    as_user "$root" "PATH=\$(echo /tmp/archive/*):\$PATH && $command" >"$scratch/said"
    grep -q 'slurm job 4714' "$scratch/said" || fail "the archive's program does not run"
    umount "$root/proc"
    rm -rf --one-file-system "$root"
}
for suite in $suites; do in_root "$suite"; done

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

step "container: the image has the program, and it runs there"
image() { buildah --storage-driver vfs --root "$scratch/images" --runroot "$scratch/images.run" "$@"; }
image bud --isolation chroot --timestamp 1 -f packaging/Containerfile -t gpumap target/package-files >"$scratch/said" 2>&1 || {
    cat "$scratch/said" >&2
    fail "no image"
}
container=$(image from localhost/gpumap)
image run --isolation chroot -v "$PWD/fixtures:/fixtures:ro" "$container" -- \
    /usr/bin/gpumap --from /fixtures/nodes/slurm-jobs.json >"$scratch/said"
grep -q 'slurm job 4714' "$scratch/said" || fail "the image's program does not run"
image rm "$container" >/dev/null

step "Spack: the recipe's own steps"
python3 packaging/spack/check.py "$binary" "$scratch/spack" || fail "the recipe for Spack"

step "checksums and bill of materials"
(cd "$files" && sha256sum -c --quiet SHA256SUMS)
grep -q '"name": "aya"' "$files"/*.cdx.json || fail "the bill of materials does not name aya"
if grep -qF "$PWD" "$files"/*.cdx.json; then fail "the bill of materials names $PWD"; fi
echo "packages: all as it should be"
