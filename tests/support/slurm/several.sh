# PID 1 of namespaces with a Slurm of four nodes, n1 to n4, each a slurmd on a port
# of its own: $1 is the working directory. It holds slurm.conf. The rest of the words
# is run there, and everything ends with it. Without cgroups: several slurmds of one
# machine would share them.
set -eu
work=$1
shift
busybox ip link set lo up
# getaddrinfo(3) wants one address that is not 127.0.0.1.
busybox ip address add 192.0.2.1/32 dev lo
echo "127.0.0.1 localhost $(hostname) $(hostname -s)" >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts
mkdir -p "$work/log" "$work/run" "$work/state"
export SLURM_CONF="$work/slurm.conf"

umask 077
head -c 128 /dev/urandom >"$work/munge.key"
umask 022
munged --force --num-threads=2 --key-file="$work/munge.key" --socket="$work/run/munge.sock" \
    --pid-file="$work/run/munged.pid" --log-file="$work/log/munged" --seed-file="$work/munged.seed"
slurmctld -f "$SLURM_CONF"
for node in n1 n2 n3 n4; do
    mkdir -p "$work/spool/$node"
    slurmd -f "$SLURM_CONF" -N "$node"
done
tries=0
until [ "$(timeout 2 sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = 4 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { tail -n 20 "$work"/log/* >&2; exit 99; }
    sleep 0.1
done
"$@"
