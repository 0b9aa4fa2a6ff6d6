#!/usr/bin/env bash
# Adds node I, or boots it again after node-stop.sh: containerd, kubelet and kube-proxy in network,
# mount and process namespaces of their own, whose end takes everything of the node along.
# usage: [DEAD_POD=blackhole] node.sh RUN I
set -euo pipefail
run=$1 i=$2
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
name=node$i dir=$run/node/node$i pods=$(pod_range "$i")
if pid_of "$name" >/dev/null; then exit; fi

ip link del "nogoo9-$i" 2>/dev/null || true # the cable of a node that was killed
mkdir -p "$dir"/{cni,containerd,kubelet,pods-log,var-lib,var-lib.work}
[ -e "$run/pki/$name.kubeconfig" ] || "$here/pki.sh" "$run" node "$i"
fill() { # file
  sed -e "s|@DIR@|$dir|g; s|@BIN@|$(readlink "$run/bin")|g; s|@PKI@|$run/pki|g; s|@NAME@|$name|g" \
    -e "s|@NODE_IP@|$(node_ip "$i")|g; s|@HOST_IP@|$HOST_IP|g; s|@PODS@|$pods|g; s|@RANGE@|$RANGE|g" \
    "$here/config/$1"
}
for file in containerd.toml kubelet.yaml kube-proxy.yaml; do fill "$file" >"$dir/$file"; done
fill ptp.conflist >"$dir/cni/10-ptp.conflist"

setsid unshare --mount --net --pid --fork --kill-child --mount-proc \
  "$here/node-init.sh" "$run" "$i" "${DEAD_POD:-unreachable}" >>"$run/log/$name.log" 2>&1 </dev/null &
outer=$!
record "$name-outer" "$outer"
# What counts is the first process inside: its namespaces are the node.
for _ in $(seq 200); do
  read -r inner <"/proc/$outer/task/$outer/children" || true
  [ -z "${inner:-}" ] || break
  sleep 0.05
done
record "$name" "${inner:?"unshare started nothing; see $run/log/$name.log"}"

ip link add "nogoo9-$i" type veth peer name uplink netns "$inner"
ip addr add "$(cable_ip "$i")/30" dev "nogoo9-$i"
ip link set "nogoo9-$i" up
ip route add "$pods" via "$(node_ip "$i")" dev "nogoo9-$i"
# Lets packets from this node on to another, on this interface only, and goes with it.
echo 1 >"/proc/sys/net/ipv4/conf/nogoo9-$i/forwarding"

# After a reboot the API still says Ready of the node's former life, hence the question to the kubelet.
serves() {
  curl -fsk -m 2 --cert "$run/pki/apiserver-kubelet.crt" --key "$run/pki/apiserver-kubelet.key" \
    "https://$(node_ip "$i"):10250/healthz" &&
    [ "$(kubectl get node "$name" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}
if ! await "$name" 120 serves; then
  tail -n 20 "$run/log/$name"-*.log >&2
  exit 1
fi
