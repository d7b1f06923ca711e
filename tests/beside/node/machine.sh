# Makes the namespaces of a test node private, and stays as their first process: all others end with it.
# Arguments: a folder for its files, and the name of its cgroup.
set -euo pipefail
folder=$1
cgroup=$2

hierarchies() {
    while read -r _ point type _; do
        [[ $type != cgroup && $type != cgroup2 ]] || printf '%s %s\n' "$point" "$type"
    done </proc/mounts
}

# The cgroup of the node is the root of its namespace, which is that of this process when it begins.
if [[ $# == 2 ]]; then
    while read -r point type; do
        mkdir "$point/$cgroup"
        for file in cpuset.cpus cpuset.mems; do
            # Version 1 begins with an empty set, which cannot have processes.
            if [[ $type == cgroup && -e $point/$file ]]; then
                cat "$point/$file" >"$point/$cgroup/$file"
            fi
        done
        if [[ $type == cgroup2 ]]; then
            for controller in $(cat "$point/cgroup.controllers"); do
                printf '+%s' "$controller" >"$point/cgroup.subtree_control"
            done
        fi
        echo $$ >"$point/$cgroup/cgroup.procs"
    done < <(hierarchies)
    exec unshare --cgroup bash -c "$BASH_EXECUTION_STRING" machine "$folder" "$cgroup" inside
fi
mkdir -p "$folder/private"
hierarchies | while read -r point type; do
    # Instead of the mount of the host: programs read the first one of a hierarchy.
    mount --bind "$point/$cgroup" "$folder/private"
    umount "$point"
    mount --move "$folder/private" "$point"
    # The root must not have processes, so that its children can have controllers.
    mkdir "$point/init"
    if [[ $type == cgroup && -e $point/cpuset.cpus ]]; then
        cat "$point/cpuset.cpus" >"$point/init/cpuset.cpus"
        cat "$point/cpuset.mems" >"$point/init/cpuset.mems"
    fi
    echo 1 >"$point/init/cgroup.procs"
done

# Volumes may propagate mounts, inside of the node.
mount --make-rshared /

# Paths that containerd, runc and the kubelet do not let configure. What they write is in memory.
mount -t tmpfs node "$folder/private"
for path in /run /var/lib /var/log; do
    upper=$folder/private/upper$path
    work=$folder/private/work$path
    mkdir -p "$upper" "$work"
    mount -t overlay -o "lowerdir=$path,upperdir=$upper,workdir=$work" node "$path"
done

# Flags that the kubelet sets. It finds its values here, and the host keeps its own.
for flag in vm.overcommit_memory=1 vm.panic_on_oom=0 kernel.panic=10 kernel.panic_on_oops=1 \
    kernel.keys.root_maxkeys=1000000 kernel.keys.root_maxbytes=25000000; do
    name=${flag%%=*}
    printf '%s\n' "${flag#*=}" >"$folder/private/$name"
    mount --bind "$folder/private/$name" "/proc/sys/${name//.//}"
done

echo ready
# Waits for adopted children too: shims of containerd leave theirs behind.
sleep infinity &
wait
