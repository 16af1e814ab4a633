# PID 1 of a node that runs systemd: $1 is the working directory. It holds
# gpumap (a link to the program under test) and units/ (what is put into
# /etc/systemd/system). The node has this machine's /usr, read through an
# overlay, and nothing else of its files.
set -eu
work=$1
if [ "${2-}" != named ]; then
    # systemd sets the host name: of a namespace of its own.
    exec unshare -u sh "$0" "$work" named
fi

root=$work/root
mkdir -p "$root"
mount -t tmpfs -o mode=755 root "$root"
cd "$root"
mkdir -p usr over/upper over/work proc sys dev run tmp var home root etc/systemd/system mnt/test old
mount -t overlay -o "lowerdir=/usr,upperdir=$root/over/upper,workdir=$root/over/work" usr usr
install -m 755 "$(readlink "$work/gpumap")" usr/bin/gpumap
for link in bin sbin lib lib32 lib64; do
    if [ -L "/$link" ]; then ln -s "$(readlink "/$link")" "$link"; fi
done
cp /etc/ld.so.cache /etc/nsswitch.conf etc/
echo 'root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' >etc/passwd
echo 'root:x:0:
nogroup:x:65534:' >etc/group
echo 0123456789abcdef0123456789abcdef >etc/machine-id
cp -r "$work"/units/. etc/systemd/system/

mount -t proc proc proc
# What systemd and its helpers write there would be the machine's.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount -t tracefs tracefs sys/kernel/tracing
mount -t tmpfs -o mode=755 dev dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
    set -- $node
    mknod -m 666 "dev/$1" c "$2" "$3"
done
mount -t tmpfs -o mode=755 run run
# Units of the machine's own subjects: its audit log, its other file systems.
for unit in systemd-journald-audit.socket systemd-sysctl.service systemd-modules-load.service sys-kernel-debug.mount \
    sys-fs-fuse-connections.mount dev-hugepages.mount systemd-remount-fs.service systemd-update-utmp.service; do
    ln -s /dev/null "etc/systemd/system/$unit"
done
mount --bind "$work" mnt/test
pivot_root . old
umount -l /old
exec env -i container=gpumap-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=basic.target --show-status=false >/mnt/test/log/systemd 2>&1
