#!/usr/bin/env bash
# Starts etcd, API server, controllers, scheduler, DNS and the provisioner of volumes on this machine;
# run again, it starts those that have died. usage: control-plane.sh RUN
set -euo pipefail
run=$1
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
bin=$run/bin pki=$run/pki
mkdir -p "$run"/{log,pid,volumes}
[ -e "$run/admin.kubeconfig" ] || "$here/pki.sh" "$run" control

# Nodes have no default route and the host sends nothing of the range on, so no test leaves the machine.
ip route replace unreachable "$RANGE"
ip addr replace "$HOST_IP/32" dev lo

etcd=http://127.0.0.1:$ETCD_PORT peer=http://127.0.0.1:$ETCD_PEER_PORT
launch etcd "$bin/etcd" --name=test --data-dir="$run/etcd" --unsafe-no-fsync \
  --listen-client-urls="$etcd" --advertise-client-urls="$etcd" \
  --listen-peer-urls="$peer" --initial-advertise-peer-urls="$peer" --initial-cluster="test=$peer"
await etcd 60 curl -fs -m 2 "$etcd/health"

# The requestheader flags are for aggregated APIs, of which there are none; without them every
# component logs again and again that they are missing.
launch kube-apiserver "$bin/kube-apiserver" --etcd-servers="$etcd" \
  --bind-address="$HOST_IP" --advertise-address="$HOST_IP" --secure-port="$API_PORT" \
  --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
  --client-ca-file="$pki/ca.crt" --authorization-mode=Node,RBAC \
  --enable-admission-plugins=NodeRestriction \
  --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file="$pki/accounts.pub" --service-account-signing-key-file="$pki/accounts.key" \
  --service-cluster-ip-range="$SERVICE_RANGE" \
  --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy \
  --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
  --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --kubelet-certificate-authority="$pki/ca.crt" \
  --kubelet-client-certificate="$pki/apiserver-kubelet.crt" \
  --kubelet-client-key="$pki/apiserver-kubelet.key" --kubelet-preferred-address-types=InternalIP
await kube-apiserver 120 api /readyz

# With the default of 20 requests a second the controllers' own start takes 5 s longer. The grace
# period (50 s by default) is how long the loss of a node goes unnoticed.
launch kube-controller-manager "$bin/kube-controller-manager" --leader-elect=false \
  --kubeconfig="$pki/controllers.kubeconfig" --authentication-kubeconfig="$pki/controllers.kubeconfig" \
  --authorization-kubeconfig="$pki/controllers.kubeconfig" \
  --bind-address=127.0.0.1 --secure-port="$CONTROLLERS_PORT" \
  --use-service-account-credentials --service-account-private-key-file="$pki/accounts.key" \
  --root-ca-file="$pki/ca.crt" --kube-api-qps=500 --kube-api-burst=1000 \
  --node-monitor-grace-period=20s
launch kube-scheduler "$bin/kube-scheduler" --leader-elect=false \
  --kubeconfig="$pki/scheduler.kubeconfig" --authentication-kubeconfig="$pki/scheduler.kubeconfig" \
  --authorization-kubeconfig="$pki/scheduler.kubeconfig" \
  --bind-address=127.0.0.1 --secure-port="$SCHEDULER_PORT"

sed -e "s|@HOST_IP@|$HOST_IP|; s|@READY_PORT@|$DNS_READY_PORT|; s|@PKI@|$pki|" "$here/config/Corefile" >"$run/Corefile"
launch dns "$bin/dns" -conf "$run/Corefile"
launch provisioner "$bin/provisioner" --kubeconfig="$pki/addons.kubeconfig" --root="$run/volumes"

await kube-controller-manager 60 curl -fsk -m 2 "https://127.0.0.1:$CONTROLLERS_PORT/healthz"
await kube-scheduler 60 curl -fsk -m 2 "https://127.0.0.1:$SCHEDULER_PORT/healthz"
await dns 60 curl -fs -m 2 "http://127.0.0.1:$DNS_READY_PORT/ready"
# A namespace takes pods only once the controllers have made its ServiceAccount.
await kube-controller-manager 60 api /api/v1/namespaces/default/serviceaccounts/default
# Its connections to a store that was started anew come back one by one.
await kube-apiserver 60 kubectl apply -f "$here/config/storage-class.yaml"
