# PID 1 of a node that runs Slurm alone: $1 is the working directory. It holds
# etc/ (slurm.conf, gres.conf, cgroup.conf), nodes (lines `PATH MAJOR MINOR`) and
# shim.so. Says "ready". Whoever ends it ends everything that was started here.
set -eu
work=$1

# The tree of another distribution becomes the root, as a copy that is written in
# memory; the directories of `shared` are there too.
if [ -f "$work/tree" ]; then
    mkdir "$work/over"
    mount -t tmpfs over "$work/over"
    mkdir "$work/over/upper" "$work/over/work" "$work/over/root"
    root=$work/over/root
    mount -t overlay -o "lowerdir=$(cat "$work/tree"),upperdir=$work/over/upper,workdir=$work/over/work" tree "$root"
    for directory in proc sys dev; do mount --rbind "/$directory" "$root/$directory"; done
    while read -r directory; do
        mkdir -p "$root$directory"
        mount --bind "$directory" "$root$directory"
    done <"$work/shared"
    touch "$root/etc/hosts"
    cd "$root"
    pivot_root . .
    umount -l .
    cd /
fi

# The caller's cgroup is the root here, and there is nothing but cgroup2.
umount -R /sys/fs/cgroup 2>/dev/null || umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/init /sys/fs/cgroup/slurmd /sys/fs/cgroup/system.slice
echo 1 >/sys/fs/cgroup/init/cgroup.procs

# Invented device nodes on a /dev of its own.
dev=$work/dev
mkdir -p "$dev"
mount -t tmpfs -o mode=755 dev "$dev"
mkdir "$dev/pts" "$dev/shm"
mount --rbind /dev/pts "$dev/pts"
mount -t tmpfs -o mode=1777 shm "$dev/shm"
ln -s /proc/self/fd "$dev/fd"
ln -s pts/ptmx "$dev/ptmx"
printf '%s\n' '/dev/null 1 3' '/dev/zero 1 5' '/dev/full 1 7' '/dev/random 1 8' '/dev/urandom 1 9' '/dev/tty 5 0' |
    cat - "$work/nodes" |
    while read -r path major minor; do
        mkdir -p "$(dirname "$work$path")"
        mknod -m 666 "$work$path" c "$major" "$minor"
    done
mount --rbind "$dev" /dev

# Hooks look for gpumap and logger there, and keep their state in /var/lib.
if [ -d "$work/local" ]; then
    mount --bind "$work/local" /usr/local/bin
    mount --bind "$(readlink "$work/tested")" /usr/local/bin/gpumap.tested
    mount --bind "$work/var" /var/lib
    mkdir -p /run/gpumap
    mount -t tmpfs -o mode=700 gpumap /run/gpumap
    mount --rbind /dev "$work/gpu/dev"
fi

# A network with nothing but the loopback, so that every port is free.
# getaddrinfo(3) wants one address that is not 127.0.0.1.
busybox ip link set lo up
busybox ip address add 192.0.2.1/32 dev lo
echo "127.0.0.1 localhost $(hostname) $(hostname -s)" >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts
# Slurm's configuration where a node has it, and through the variable.
export SLURM_CONF="$work/etc/slurm.conf"
if [ -d /etc/slurm ]; then mount --bind "$work/etc" /etc/slurm; fi

umask 077
head -c 128 /dev/urandom >"$work/state/munge.key"
umask 022
munged --force --num-threads=2 --key-file="$work/state/munge.key" --socket="$work/run/munge.sock" \
    --pid-file="$work/run/munged.pid" --log-file="$work/log/munged" --seed-file="$work/state/munged.seed"
slurmctld -f "$SLURM_CONF"
sh -c 'echo $$ >/sys/fs/cgroup/slurmd/cgroup.procs; LD_PRELOAD=$1 exec slurmd -f "$SLURM_CONF"' sh "$work/shim.so"
until timeout 2 sinfo -h -o %T 2>/dev/null | grep -q idle; do sleep 0.05; done
echo ready
exec >&2
# The first process is the parent of all orphans: this reaps them.
while :; do sleep 1; done
