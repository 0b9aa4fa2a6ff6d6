#!/usr/bin/env bash
# Takes down what up.sh brought up, as far as it is there. Only the logs stay. usage: down.sh RUN
set -euo pipefail
[ -d "$1/pid" ] || exit 0
run=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"

stops=()
for dir in "$run"/node/node*; do
  [ -d "$dir" ] || continue
  "$here/node-stop.sh" "$run" "${dir##*/node}" &
  stops+=($!)
done
failed=0
for pid in "${stops[@]}"; do wait "$pid" || failed=1; done
halt 5 provisioner dns kube-scheduler kube-controller-manager kube-apiserver
halt 5 etcd

for dir in "$run"/node/node*; do
  [ ! -d "$dir" ] || ip link del "nogoo9-${dir##*/node}" 2>/dev/null || true
done
if [ "$(cat "$OWNER_FILE" 2>/dev/null)" = "$run" ]; then
  ip addr del "$HOST_IP/32" dev lo 2>/dev/null || true
  ip route del unreachable "$RANGE" 2>/dev/null || true
  rm -f "$OWNER_FILE"
fi
# Everything of that life but its logs: state, keys, volumes, images.
rm -rf "${run:?}"/{etcd,node,pki,pid,volumes,images,bin,Corefile,admin.kubeconfig}
exit "$failed"
