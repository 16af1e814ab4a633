#!/bin/bash
# boot.sh KERNEL_DIR COMMAND: runs a command under another kernel, in a virtual machine
# that has this machine's root directory below an overlay. What the command writes is
# lost, but for what it writes to /tmp/out, which is the directory $OUT here.
#
#   OUT=DIR      the directory (required)     CPUS=N      processors (1)
#   MEMORY=MIB   memory (2048)                LIMIT=S     seconds (900)
#   ARGUMENTS=…  of the kernel's command line
#   MACHINE=…    x86_64 or aarch64 (that of this machine)
#   HYBRID=1     the devices controller of cgroup v1 beside cgroup2, as in older distributions
#   ROOT=DIR     a root directory of that architecture, with busybox-static, in place of
#                this machine's; the working directory is at its own place in it
#
# By emulation (TCG), which works everywhere and is some twenty times slower than the
# machine. Needs qemu-system-x86 or qemu-system-arm, virtiofsd, busybox-static, cpio, xz-utils,
# python3; zstd for newer kernels of Ubuntu.
set -euo pipefail
kernel=$(realpath "$1")
command=$2
base=$(realpath "${ROOT:-/}")
work=$(mktemp -d)
server=

case ${MACHINE:-$(uname -m)} in
x86_64) qemu=(qemu-system-x86_64 -cpu max) console=ttyS0 ;;
# The signatures of pointers are not the architecture's, which are slow to emulate.
aarch64) qemu=(qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on) console=ttyAMA0 ;;
*) echo "boot.sh: no such machine" >&2; exit 1 ;;
esac
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# One of the places where distributions put it.
virtiofsd() {
    local place
    for place in /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd; do
        [ ! -x "$place" ] || { echo "$place"; return; }
    done
    echo "boot.sh: there is no virtiofsd (package qemu-system-common or virtiofsd)" >&2
    return 1
}

modules=(virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci fuse virtiofs netfs overlay)
root=$work/root
mkdir -p "$root"/{bin,modules,proc,sys,dev,lower,upper,new}
cp "$base/bin/busybox" "$root/bin/"
ln -s busybox "$root/bin/sh"
for module in "${modules[@]}"; do
    file=$(find "$kernel" -name "$module.ko*" -print -quit)
    case $file in
    *.xz) xz -dc "$file" > "$root/modules/$module.ko" ;;
    *.zst) zstd -dcq "$file" > "$root/modules/$module.ko" ;;
    ?*) cp "$file" "$root/modules/$module.ko" ;;
    esac
done
printf '%s\n' "$command" > "$root/command"
[ "$base" = / ] || pwd > "$root/place"
[ -z "${HYBRID:-}" ] || touch "$root/hybrid"
cat > "$root/init" <<'INIT'
#!/bin/sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
# In no order: those that need another one are loaded in a later round.
for round in 1 2 3; do
    for module in /modules/*.ko; do $b insmod "$module" 2>/dev/null; done
done
$b mount -t virtiofs root /lower || { echo "init: no root"; $b poweroff -f; }
$b mount -t tmpfs upper /upper; $b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new ||
    { echo "init: no overlay"; $b poweroff -f; }
if [ -e /place ]; then
    here=$($b cat /place)
    $b mkdir -p /below /upper/here /upper/over "/new$here"
    $b mount -t virtiofs here /below && $b mount -t overlay -o \
        "lowerdir=/below,upperdir=/upper/here,workdir=/upper/over" here "/new$here" && $b umount -l /below ||
        { echo "init: no working directory"; $b poweroff -f; }
fi
# The overlay has them; nothing that is done to this first root reaches them any more.
$b umount -l /lower && $b umount -l /upper || { echo "init: the layers stay"; $b poweroff -f; }
$b mount --move /dev /new/dev; $b mount -t proc proc /new/proc; $b mount -t sysfs sys /new/sys
$b mkdir -p /new/dev/shm /new/dev/pts
$b mount -t tmpfs shm /new/dev/shm; $b mount -t devpts pts /new/dev/pts; $b ln -sf /proc/self/fd /new/dev/fd
$b mount -t tmpfs tmp /new/tmp; $b mount -t tmpfs run /new/run; $b mkdir -p /new/run/lock /new/tmp/out
$b mount -t virtiofs out /new/tmp/out || { echo "init: no directory for output"; $b poweroff -f; }
groups=/new/sys/fs/cgroup unified=/new/sys/fs/cgroup
if [ -e /hybrid ]; then
    unified=$groups/unified
    $b mount -t tmpfs groups $groups; $b mkdir $unified $groups/devices
    $b mount -t cgroup -o devices devices $groups/devices || { echo "init: no cgroup v1"; $b poweroff -f; }
fi
$b mount -t cgroup2 cgroup2 $unified; $b mount -t bpf bpf /new/sys/fs/bpf
$b mount -t securityfs securityfs /new/sys/kernel/security
$b mount -t debugfs debugfs /new/sys/kernel/debug; $b mount -t tracefs tracefs /new/sys/kernel/tracing 2>/dev/null
$b hostname machine; $b ip link set lo up 2>/dev/null
$b cp /command /start /new/tmp/
# A root of its own, because in a changed one the kernel refuses user namespaces.
exec $b switch_root /new /bin/bash /tmp/start
INIT
cat > "$root/start" <<'START'
export HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Before 5.11 programs count as locked memory. gpumap raises its limit, the tests do not.
ulimit -l unlimited
# They hold hundreds of cgroups open.
ulimit -n 65536
/bin/bash /tmp/command > /tmp/out/output 2>&1 < /dev/null
echo $? > /tmp/out/status
/bin/busybox poweroff -f
START
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet > "$work/initrd")
python3 "$(dirname "$0")/image.py" "$(find "$kernel" -name 'vmlinuz*' -print -quit)" "$work/kernel"

mkdir -p "$OUT"
rm -f "$OUT/status"
daemon=$(virtiofsd)
serve() {
    "$daemon" --socket-path="$work/$1.socket" -o source="$2" -o sandbox=chroot -o cache=always -o xattr \
        --thread-pool-size=2 > "$work/$1.log" 2>&1 &
    server="$server $!"
}
serve root "$base"
serve out "$(realpath "$OUT")"
shares=(root out)
[ "$base" = / ] || { serve here "$PWD"; shares+=(here); }
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
devices=()
for share in "${shares[@]}"; do
    until [ -S "$work/$share.socket" ]; do
        for daemon in $server; do kill -0 "$daemon" || { cat "$work"/*.log >&2; exit 1; }; done
        sleep 0.1
    done
    devices+=(-chardev "socket,id=$share,path=$work/$share.socket" -device "vhost-user-fs-pci,chardev=$share,tag=$share")
done

# The kernel of x86 measures the processor's own clock when it starts, and wrongly on a
# busy machine: hpet is a clock of that machine.
[ "$console" != ttyS0 ] || ARGUMENTS="clocksource=hpet ${ARGUMENTS:-}"
ended=0
timeout "${LIMIT:-900}" "${qemu[@]}" -accel tcg,thread=multi -smp "${CPUS:-1}" -m "${MEMORY:-2048}" \
    -object "memory-backend-memfd,id=memory,size=${MEMORY:-2048}M,share=on" -numa node,memdev=memory \
    "${devices[@]}" -nographic -no-reboot -nodefaults -serial "file:$OUT/console" \
    -kernel "$work/kernel" -initrd "$work/initrd" \
    -append "console=$console quiet panic=-1 mitigations=off no_timer_check ${ARGUMENTS:-}" </dev/null || ended=$?
[ -e "$OUT/status" ] || {
    tail -20 "$OUT/console" >&2
    why="did not end by itself"
    [ "$ended" != 124 ] || why="was stopped after ${LIMIT:-900} seconds"
    echo "boot.sh: the machine $why" >&2
    exit 1
}
exit "$(cat "$OUT/status")"
