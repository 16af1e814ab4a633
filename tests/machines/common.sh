# What tests/machines.sh and tests/machines/arm64.sh share. A script that sources this has
# $into, a directory of its own below target/.
# shellcheck shell=bash

# Fails if a program is missing.
needs() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || { echo "$(basename "$0"): there is no $program" >&2; exit 1; }
    done
}

# binaries COMMAND…: what this cargo command builds of the tests kernel and watch, in ${binary[NAME]}.
binaries() {
    local name path
    "$@" test --no-run --locked --test kernel --test watch --message-format=json-render-diagnostics --quiet |
        python3 -c '
import json, sys
for line in sys.stdin:
    built = json.loads(line)
    if built.get("executable") and built["target"]["kind"] == ["test"]:
        print(built["target"]["name"], built["executable"])
' > "$into/binaries"
    while read -r name path; do binary[$name]=$path; done < "$into/binaries"
}
declare -A binary

# The commands, for a machine, that run these modules and single tests one after the other.
# Names are looked up there: a binary may be one that this machine cannot run.
tests() {
    local wanted name
    cat <<'RUN'
run() {
    echo "== $1"
    "$2" --list --format terse | sed -n 's/: test$//p' | grep -E "^$3(::|$)" > /tmp/wanted
    # Without names all tests would run.
    [ -s /tmp/wanted ] || { echo "there is no test $1"; return; }
    "$2" --show-output --test-threads 2 --exact $(cat /tmp/wanted)
}
RUN
    for wanted in "$@"; do
        name=${wanted%%::*}
        [ -n "${binary[$name]:-}" ] || { echo "no test binary: $wanted" >&2; return 1; }
        echo "run '$wanted' '${binary[$name]}' '${wanted#*::}'"
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
