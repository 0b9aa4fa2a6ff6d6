#!/usr/bin/env bash
# Throw-away certificates and kubeconfigs, good for 30 days.
# usage: pki.sh RUN control     CA, API server, components, admin
#        pki.sh RUN node I      kubelet I
set -euo pipefail
run=$1
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
umask 077
mkdir -p "$run/pki"
cd "$run/pki"

certificate() { # name subject [alternative names]
  openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  {
    echo "extendedKeyUsage=serverAuth,clientAuth"
    [ -z "${3:-}" ] || echo "subjectAltName=$3"
  } >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" -days 30 \
    -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

# With everything inside, so that the file can be copied elsewhere.
kubeconfig() { # name of the certificate
  cat <<YAML
apiVersion: v1
kind: Config
clusters: [{name: nogoo9-test, cluster: {server: "https://$HOST_IP:$API_PORT", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: nogoo9-test, context: {cluster: nogoo9-test, user: $1}}]
current-context: nogoo9-test
YAML
}

case $2 in
control)
  openssl ecparam -name prime256v1 -genkey -noout -out ca.key
  openssl req -x509 -new -key ca.key -subj /CN=nogoo9-test-ca -days 30 -out ca.crt
  openssl genrsa -out accounts.key 2048 2>/dev/null
  openssl rsa -in accounts.key -pubout -out accounts.pub 2>/dev/null
  certificate apiserver /CN=kube-apiserver \
    "DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:$HOST_IP,IP:$SERVICE_API_IP"
  certificate apiserver-kubelet /O=system:masters/CN=apiserver-kubelet
  certificate admin /O=system:masters/CN=admin
  certificate addons /O=system:masters/CN=addons
  certificate controllers /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  certificate proxy /CN=system:kube-proxy
  for name in addons controllers scheduler proxy; do kubeconfig "$name" >"$name.kubeconfig"; done
  # Last: whoever finds it finds everything.
  kubeconfig admin >../admin.kubeconfig
  ;;
node)
  certificate "node$3" "/O=system:nodes/CN=system:node:node$3"
  certificate "node$3-server" "/CN=node$3" "DNS:node$3,IP:$(node_ip "$3")"
  kubeconfig "node$3" >"node$3.kubeconfig"
  ;;
*) die "usage: pki.sh RUN control | RUN node I" ;;
esac
