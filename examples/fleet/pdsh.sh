#!/bin/sh
# One report over nodes that pdsh reaches.
#
#   pdsh.sh NODES           such as gpu[01-64]
#
# PDSH has further options of pdsh, such as `-R ssh` where that is not its default;
# GPUMAP_ASK and GPUMAP_FLEET are as in srun.sh.
# The exit status is that of `gpumap fleet`: 1 findings, 3 something missing.
set -u
[ $# = 1 ] || { echo "usage: pdsh.sh NODES" >&2; exit 2; }
# shellcheck disable=SC2086 # words
pdsh ${PDSH:-} -w "$1" ${GPUMAP:-gpumap} ${GPUMAP_ASK:-node --json --compact --audit} |
    "${GPUMAP_HERE:-gpumap}" fleet - --expect "$1" ${GPUMAP_FLEET:-}
