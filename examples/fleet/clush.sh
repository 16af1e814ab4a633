#!/bin/sh
# One report over nodes that clush (ClusterShell) reaches.
#
#   clush.sh NODES          such as gpu[01-64], or @gpu for a group
#
# CLUSH has further options of clush, GPUMAP_ASK and GPUMAP_FLEET are as in srun.sh.
# The exit status is that of `gpumap fleet`: 1 findings, 3 something missing.
set -u
[ $# = 1 ] || { echo "usage: clush.sh NODES" >&2; exit 2; }
# -L labels each line with its node; lines stay whole.
# shellcheck disable=SC2086 # words
clush ${CLUSH:-} -L -w "$1" "${GPUMAP:-gpumap} ${GPUMAP_ASK:-node --json --compact --audit}" |
    "${GPUMAP_HERE:-gpumap}" fleet - --expect "$(nodeset -f "$1")" ${GPUMAP_FLEET:-}
