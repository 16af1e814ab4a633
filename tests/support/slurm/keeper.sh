# $1: working directory, $2: scratch cgroup, $3: the script for the node. Waits
# for a line, starts it in namespaces of its own, and ends it with this shell's
# standard input, so all of it goes even if the test is killed. Then takes away
# what is left.
trap '' INT TERM HUP
if read -r line; then
    sh -c 'echo $$ >"$2/cgroup.procs" &&
        exec unshare -m -C -p -n -i -f --kill-child --mount-proc sh "$3" "$1"' sh "$@" </dev/null &
    node=$!
    exec >/dev/null
    # Outside of the node that it made: in its cgroups it would be a process that those
    # inside cannot see.
    first=
    until read -r first _ <"/proc/$node/task/$node/children"; [ -n "$first" ]; do
        kill -0 "$node" || break
        sleep 0.01
    done
    echo "$node" >"${2%/*}/cgroup.procs"
    read -r line
    # The namespace's first process, so that unshare reaps it; else unshare itself.
    read -r first _ <"/proc/$node/task/$node/children"
    kill -KILL "${first:-$node}"
    wait "$node"
fi
tries=0
while [ -d "$2" ] && [ "$tries" -lt 100 ]; do
    find "$2" -depth -type d -exec rmdir {} \; 2>/dev/null
    tries=$((tries + 1))
    sleep 0.02
done
rm -rf "$1"
# The place of a mount that went with the namespace, unless somebody uses it.
rmdir /run/gpumap 2>/dev/null
