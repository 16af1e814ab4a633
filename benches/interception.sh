#!/bin/sh
# What gpumap measures of a library before the driver: a stand-in that takes BEFORE_NS
# nanoseconds before each launch, and with LIBVGPU=FILE that library instead (it needs a
# driver, and NVML, that suit it: give their directory in LIBCUDA and a client in CLIENT).
# Prints the probe's cost, the mean and the classes of cuLaunchKernel for each.
#
#   benches/interception.sh GPUMAP [BEFORE_NS…]
set -eu
gpumap=$1; shift
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
support=$here/tests/support/c
if [ -z "${LIBVGPU:-}" ]; then
    gcc -O1 -w -pthread -O2 -shared -fPIC -Wl,-soname,libcuda.so.1 "$support/cuda/driver.c" -o "$dir/libcuda.so.1"
    gcc -O2 -w -fno-shrink-wrap -fno-omit-frame-pointer -shared -fPIC "$support/before.c" -o "$dir/libvgpu.so"
fi
driver=${LIBCUDA:-$dir}
if [ -z "${CLIENT:-}" ]; then
    gcc -O2 -w -pthread "$support/cuda/client.c" "$driver/libcuda.so.1" "-Wl,-rpath,$driver" -o "$dir/client"
fi
for takes in ${*:-0 20 130 1700}; do
    mkfifo "$dir/in"
    TRUTH=$dir/truth BEFORE_NS=$takes LD_PRELOAD=${LIBVGPU:-$dir/libvgpu.so} \
        ${CLIENT:-"$dir/client"} device:0 stream stop launch:3 stop launch:200000 stop <"$dir/in" >/dev/null &
    client=$!
    exec 9>"$dir/in"
    "$gpumap" activity --pid "$client" --every 1s --for 6s --json >"$dir/said" &
    counting=$!
    sleep 2; echo >&9; sleep 2; echo >&9
    wait "$counting"
    exec 9>&-; kill "$client" 2>/dev/null || true; wait "$client" 2>/dev/null || true
    rm "$dir/in"
    python3 - "$dir/said" "$takes" <<'END'
import json, sys
lines = [json.loads(line)["activity"] for line in open(sys.argv[1])]
for activity in reversed(lines):
    found = [f for p in activity["processes"] for f in p.get("interception", {}).get("functions", [])
             if f["function"].startswith("cuLaunchKernel") and f["reached"] >= 200000]
    if found:
        break
one, probe = found[0], activity.get("probe_seconds")
busy = [f for a in lines for p in a["processes"] for f in p.get("interception", {}).get("functions", [])
        if f["function"].startswith("cuLaunchKernel") and (f.get("measured_seconds") or 0) and f["reached"] > 1000]
mean = busy[0]["measured_seconds"]
own = busy[0]["library_seconds"]
own = f"{own * 1e9:.0f} ns" if own else f"at most {busy[0]['library_at_most_seconds'] * 1e9:.0f} ns, not measurable"
print(f"takes {sys.argv[2]} ns: measured {mean * 1e9:.0f} ns, probe {probe * 1e9:.0f} ns, "
      f"library {own}; "
      + ", ".join(f"<{c['below_seconds'] * 1e9:.0f}: {c['calls']}" for c in busy[0]["durations"] if c["below_seconds"]))
END
done
