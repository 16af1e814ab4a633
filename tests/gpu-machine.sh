#!/bin/bash
# What only a machine with a GPU can say, in one command:
#
#   tests/gpu-machine.sh [NAME [LIBCUDART]]
#
# LIBCUDART is a libcudart.so of NVIDIA's, if its calls are to be counted as well.
# It stores what it saw under fixtures/gpu/NAME (by default the host's name without its
# domain), and what gpumap says of it beside that. It needs a gpumap that is built
# (target/dist, target/release or target/debug), gcc and python3; the parts with probes
# need root. It changes nothing: no setting of the GPU, no MIG, no reset, no daemon. The
# PTX that it runs adds numbers on one block, for a moment.
#
#   tree/            files of /proc/driver, /proc/devices and /sys that list GPUs
#   facts.txt        kernel, driver, device nodes, which libcuda is mapped, MIG as it is
#   stubs.tsv        how the exported functions begin in this driver: bytes of the first
#                    16 of each function that gpumap counts
#   devices.tsv      forms of CUDA_VISIBLE_DEVICES, and the UUIDs that the driver names then
#   driver.tsv       calls of the driver's interface, by a small program (PTX)
#   opened.txt       which device files that program has open and mapped, and what the
#                    driver's files say of the GPU then
#   memory.tsv       bytes that it allocated, that gpumap counted, that nvidia-smi shows
#   runtime.json     what was counted of a few calls of LIBCUDART
#   activity.json    what `gpumap activity` counted of that program; cost.tsv: what a launch
#                    takes alone and counted, nanoseconds
#   node.json        what `gpumap node` says
#
# Left to look at by hand: what NVML says under a deny rule, and whether an open file
# serves after a program that denies it was attached. Both change rules of processes.
set -u
cd "$(dirname "$0")/.." || exit 2
name=${1:-$(hostname -s)}
runtime=${2:-}
into=fixtures/gpu/$name
case $name in "" | */* | .*) echo "gpu-machine: $name is no name for a folder" >&2; exit 2 ;; esac

if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
	echo "gpu-machine: this machine has no NVIDIA GPU: no /dev/nvidia0, nothing was stored"
	exit 0
fi
gpumap=
for build in dist release debug; do
	[ -n "$gpumap" ] || { [ -x "target/$build/gpumap" ] && gpumap=$PWD/target/$build/gpumap; }
done
[ -n "$gpumap" ] || { echo "gpu-machine: build gpumap first: cargo build --release" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$into/tree"
limited() { timeout 60 "$@"; }
# Serial numbers stay on the machine; UUIDs are needed.
store() { sed -E 's/(Serial Number|serial)([^:]*:).*/\1\2 (taken out)/I'; }

# Files that list GPUs, read as far as anybody may.
for file in /proc/devices /proc/driver/nvidia/version /proc/driver/nvidia/params \
	/proc/driver/nvidia/gpus/*/information /proc/driver/nvidia-caps/* \
	/proc/driver/nvidia/capabilities/gpu*/mig/* /proc/driver/nvidia/capabilities/gpu*/mig/*/* \
	/sys/bus/pci/drivers/nvidia/*/{vendor,device,class,numa_node}; do
	[ -f "$file" ] || continue
	mkdir -p "$into/tree$(dirname "$file")"
	limited cat "$file" 2>/dev/null | store >"$into/tree$file"
done

library=$(python3 - <<'PYTHON'
import ctypes
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit
for line in open("/proc/self/maps"):
    if "libcuda.so" in line:
        print(line.split()[-1])
        break
PYTHON
)
{
	uname -srm
	grep -E 'CapEff|Seccomp:' /proc/self/status
	stat -c '%n %F %t:%T %a %u:%g' /dev/nvidia* /dev/nvidia-caps/* 2>/dev/null
	echo "libcuda: ${library:-none}"
	[ -z "$library" ] || stat -L -c 'libcuda is of %U, mode %a, %s bytes' "$library"
	# Looked at, never changed.
	limited nvidia-smi --query-gpu=index,name,uuid,driver_version,mig.mode.current,compute_mode --format=csv 2>&1
	limited nvidia-smi -L 2>&1
} >"$into/facts.txt"

if [ -n "$library" ]; then
	python3 - "$library" >"$into/stubs.tsv" <<'PYTHON'
import ctypes, re, sys
names = re.findall(r'"(cu[A-Z]\w+)"', open("src/activity/functions/cuda.rs").read())
library = ctypes.CDLL(sys.argv[1])
for name in sorted({n + s for n in names for s in ("", "_ptsz", "_ptds")}):
    try:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        continue
    print(name, ctypes.string_at(address, 16).hex(), sep="\t")
PYTHON
fi

# The UUIDs in the order in which a process sees its devices.
cat >"$work/devices.py" <<'PYTHON'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
error, count = cuda.cuInit(0), ctypes.c_int()
cuda.cuDeviceGetCount(ctypes.byref(count))
names = []
for ordinal in range(count.value):
    for function in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        uuid = (ctypes.c_ubyte * 16)()
        getattr(cuda, function)(uuid, ordinal)
        names.append(bytes(uuid).hex())
print(error, count.value, *names, sep="\t")
PYTHON
first=$(sed -n 's/.*UUID: *//p' /proc/driver/nvidia/gpus/*/information 2>/dev/null | head -n 1)
{
	printf 'unset\t%s\n' "$(env -u CUDA_VISIBLE_DEVICES timeout 60 python3 "$work/devices.py" 2>&1 | tail -n 1)"
	for value in "" 0 0,0 1 1,0 -1 "0,-1" "0,x" "0," "00" "+0" "0x0" " 0" "0 " "$first" "${first:0:12}" "GPU-" \
		"${first^^}" "${first,,}" "0,$first" "$first,$first" "MIG-" "MIG-${first:4}"; do
		printf '%q\t%s\n' "$value" "$(CUDA_VISIBLE_DEVICES=$value timeout 60 python3 "$work/devices.py" 2>&1 | tail -n 1)"
	done
} >"$into/devices.tsv"

# A kernel without nvcc: PTX, which the driver compiles.
cat >"$work/launch.py" <<'PYTHON'
import ctypes, sys, time
PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry one(.param .u64 at) {
	.reg .b64 %a;
	ld.param.u64 %a, [at];
	cvta.to.global.u64 %a, %a;
	red.global.add.u32 [%a], 1;
	ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")
pointer, failed = ctypes.c_void_p, 0


def call(name, *arguments):
    global failed
    error = getattr(cuda, name)(*arguments)
    failed |= error
    print(name, error, sep="\t", file=sys.stderr)


context, module, function, stream, memory = pointer(), pointer(), pointer(), pointer(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"one")
call("cuStreamCreate", ctypes.byref(stream), 0)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
call("cuMemsetD8_v2", memory, 0, ctypes.c_size_t(4096))
if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))
parameters = (pointer * 1)(ctypes.cast(ctypes.byref(memory), pointer))
launch, times, rounds = cuda.cuLaunchKernel, int(sys.argv[1]), []
for _ in range(times // 100):
    begun = time.perf_counter_ns()
    for _ in range(100):
        failed |= launch(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, None)
    rounds.append((time.perf_counter_ns() - begun) / 100)
    cuda.cuStreamSynchronize(stream)
result = ctypes.c_uint32()
call("cuMemcpyDtoH_v2", ctypes.byref(result), memory, ctypes.c_size_t(4))
call("cuMemFree_v2", memory)
if len(sys.argv) > 3:
    kept = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(kept), ctypes.c_size_t(int(sys.argv[3])))
    print("ready", flush=True)
    sys.stdin.readline()
rounds.sort()
print(times, result.value, failed, round(rounds[len(rounds) // 2]), sep="\t")
PYTHON
limited python3 "$work/launch.py" 10000 2>"$into/driver.tsv" >"$work/bare"
printf 'what\tlaunches\tadded by 32 threads each\terrors\tns a launch, with the interpreter\n' >"$into/cost.tsv"
printf 'alone\t%s\n' "$(cat "$work/bare")" >>"$into/cost.tsv"

# What a process keeps open, and what the driver's files say while it runs.
bytes=$((1 << 30))
mkfifo "$work/go"
exec 9<>"$work/go"
python3 "$work/launch.py" 100 0 "$bytes" <"$work/go" >"$work/kept" 2>/dev/null &
keeper=$!
for _ in $(seq 200); do grep -q ready "$work/kept" && break; sleep 0.1; done
{
	find "/proc/$keeper/fd" -printf '%f %l\n' 2>/dev/null | grep -F /dev/ | sort -k 2 | uniq -c -f 1
	grep -F /dev/ "/proc/$keeper/maps" | awk '{ print $2, $4, $5, $6 }' | sort | uniq -c
	cat /proc/driver/nvidia/gpus/*/information | store
} >"$into/opened.txt" 2>/dev/null
printf 'what\tbytes\n' >"$into/memory.tsv"
printf 'asked for\t%s\n' $((bytes + 4096)) >>"$into/memory.tsv"
limited nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits 2>/dev/null |
	awk -F ', *' -v pid="$keeper" '$1 == pid { printf "used, as nvidia-smi shows it\t%d\n", $2 * 1048576 }' >>"$into/memory.tsv"
echo >&9
wait "$keeper"

if [ "$(id -u)" = 0 ]; then
	for every in 64 1; do
		"$gpumap" --json activity --every 1s --for 30s --time-one-in "$every" >"$work/activity" 2>"$work/errors" &
		counting=$!
		sleep 2
		limited python3 "$work/launch.py" 10000 1 2>/dev/null >"$work/counted"
		sleep 3
		kill "$counting"
		wait "$counting"
		printf 'one of %s timed\t%s\n' "$every" "$(cat "$work/counted")" >>"$into/cost.tsv"
	done
	# The line that has the process's end.
	grep '"ended_at":"' "$work/activity" | tail -n 1 >"$into/activity.json"
	"$gpumap" --json activity --every 500ms --for 30s >"$work/activity" 2>"$work/errors" &
	counting=$!
	sleep 2
	python3 "$work/launch.py" 100 1 "$bytes" <"$work/go" >"$work/kept" 2>/dev/null &
	keeper=$!
	for _ in $(seq 200); do grep -q ready "$work/kept" && break; sleep 0.1; done
	sleep 2
	echo >&9
	wait "$keeper"
	python3 - "$keeper" "$work/activity" >>"$into/memory.tsv" <<'PYTHON'
import json, sys
most = 0
for line in open(sys.argv[2]):
    for process in json.loads(line)["activity"]["processes"]:
        if process["pid"] == int(sys.argv[1]):
            most = max([most, *(gpu["memory"]["peak_bytes"] for gpu in process["gpus"])])
print("counted, at most", most, sep="\t")
PYTHON
	if [ -n "$runtime" ]; then
		python3 - "$runtime" <<'PYTHON' 2>>"$into/facts.txt"
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
memory, stream = ctypes.c_void_p(), ctypes.c_void_p()
host = ctypes.create_string_buffer(1 << 20)
size = lambda bytes: ctypes.c_size_t(bytes)
cuda.cudaSetDevice(0)
cuda.cudaFree(None)
time.sleep(1)
cuda.cudaStreamCreate(ctypes.byref(stream))
cuda.cudaMalloc(ctypes.byref(memory), size(1 << 20))
# Kinds: 1 to the device, 2 from it, 4 as the addresses say.
for kind in (1, 4):
    cuda.cudaMemcpy(memory, host, size(1 << 20), kind)
    cuda.cudaMemcpyAsync(memory, host, size(1 << 20), kind, stream)
cuda.cudaMemcpy(host, memory, size(1 << 20), 2)
cuda.cudaMemset(memory, 1, size(1 << 20))
cuda.cudaMemsetAsync(memory, 1, size(1 << 20), stream)
cuda.cudaStreamSynchronize(stream)
cuda.cudaDeviceSynchronize()
cuda.cudaFree(memory)
PYTHON
		sleep 2
	fi
	kill "$counting"
	wait "$counting"
	[ -z "$runtime" ] || grep '"ended_at":"' "$work/activity" | tail -n 1 >"$into/runtime.json"
else
	echo "gpu-machine: not root: nothing was counted with probes" | tee -a "$into/facts.txt"
fi
limited "$gpumap" --json node >"$into/node.json" 2>&1
echo "gpu-machine: stored in $into; read it before you commit it: it names this machine's GPUs by UUID"
