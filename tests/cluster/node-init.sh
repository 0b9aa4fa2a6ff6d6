#!/usr/bin/env bash
# The first process of a node; node.sh starts it inside the node's namespaces.
# usage: node-init.sh RUN I ROUTE_OF_DEAD_PODS
set -euo pipefail
run=$1 i=$2 dead_pod=$3
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
name=node$i dir=$run/node/node$i
# Not by $run/bin, a link that a newer build moves: what runs keeps its own.
bin=$(readlink "$run/bin")

# Copies of their own of what containerd, CNI and the kubelet write at fixed paths; within the node
# mounts are shared, as runc and the kubelet expect.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$dir/var-lib,workdir=$dir/var-lib.work" /var/lib
mount --make-rshared /
# The kubelet insists on these values. It sees them, and the machine keeps its own.
sysctl_looks_like() { # path value
  mkdir -p /run/sysctl
  echo "$2" >"/run/sysctl/${1##*/}"
  mount --bind "/run/sysctl/${1##*/}" "/proc/sys/$1"
}
sysctl_looks_like vm/overcommit_memory 1
sysctl_looks_like vm/panic_on_oom 0
sysctl_looks_like kernel/panic 10
sysctl_looks_like kernel/panic_on_oops 1
sysctl_looks_like kernel/keys/root_maxkeys 1000000
sysctl_looks_like kernel/keys/root_maxbytes 25000000

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mkdir -p "/sys/fs/cgroup/nogoo9-$name"
else
  for controller in /sys/fs/cgroup/*/; do
    [ -e "$controller/cgroup.procs" ] || continue
    mkdir -p "$controller/nogoo9-$name"
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$controller/$file" ] || cat "$controller/$file" >"$controller/nogoo9-$name/$file"
    done
  done
fi

ip link set lo up
until ip link set uplink up 2>/dev/null; do sleep 0.05; done # node.sh plugs the cable in
ip addr add "$(node_ip "$i")/30" dev uplink
ip route add "$RANGE" via "$(cable_ip "$i")"
# Without this a packet to a pod that is gone would go to the host and back until its time to live
# ends. `unreachable` refuses at once, `blackhole` lets callers time out; both happen in real clusters.
ip route add "$dead_pod" "$(pod_range "$i")"

export PATH=$bin:$PATH
containerd --config "$dir/containerd.toml" >>"$run/log/$name-containerd.log" 2>&1 &
containerd=$!
until ctr version >/dev/null 2>&1; do
  birth "$containerd" >/dev/null || die "containerd ended; see $run/log/$name-containerd.log"
  sleep 0.05
done
for image in "$run"/images/*.tar; do ctr -n k8s.io images import --local "$image" >/dev/null; done

kubelet --config="$dir/kubelet.yaml" --kubeconfig="$run/pki/$name.kubeconfig" \
  --hostname-override="$name" --node-ip="$(node_ip "$i")" --root-dir="$dir/kubelet" \
  >>"$run/log/$name-kubelet.log" 2>&1 &
kubelet=$!
kube-proxy --config="$dir/kube-proxy.yaml" >>"$run/log/$name-kube-proxy.log" 2>&1 &

trap 'kill "$kubelet" "$containerd" 2>/dev/null; wait "$kubelet" "$containerd" || true; exit 0' TERM
wait "$kubelet"
