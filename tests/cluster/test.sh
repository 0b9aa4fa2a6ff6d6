#!/usr/bin/env bash
# `make cluster-test`: a cluster from nothing, image and chart installed on it as README says, the
# suites, and all of it gone again, whatever happens in between. Logs stay in target/cluster-test/log.
# usage: [PROFILE=release] test.sh
# shellcheck disable=SC2317 # functions run by `step` and `trap` look unreachable
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
run=$root/target/cluster-test
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
readonly IDP_PORT=16450 PUBLIC_PORT=16451
readonly SYSTEM=nogoo9-system WORKSPACES=nogoo9-workspaces
profile=${PROFILE:-debug}
case $profile in
debug) cargo_flags=() ;;
release) cargo_flags=(--release) ;;
*) die "PROFILE=$profile is neither debug nor release" ;;
esac
cargo=${CARGO:-cargo}
# On the installed chart, and on the bare API server.
suites=(multiuser misfortune chaos nodes)
local_suites=(kubelet_pods kubelet_lives kubelet_volumes control_plane)

step() { # what command...
  local what=$1 begin=$SECONDS
  shift
  say "$what"
  "$@"
  say "$what: $((SECONDS - begin)) s"
}

# Also what a run has left that was killed.
down() {
  say "down"
  halt 5 idp
  "$here/down.sh" "$run" || return
  rm -rf "${run:?}"/{idp,reader,image,install.sh,facts.json}
}

# Everything that the cluster can still tell. Into files; the parts one looks at first also to the eyes.
tell() {
  local file=$run/log/cluster.txt pod
  [ -e "$run/admin.kubeconfig" ] || return 0
  {
    ip address show dev lo
    ip route
    kubectl get nodes,pods,pvc,pv,services --all-namespaces -o wide
    kubectl get events --all-namespaces --sort-by=.lastTimestamp
    kubectl describe pods --namespace "$SYSTEM"
    kubectl describe pods --namespace "$WORKSPACES"
  } >"$file" 2>&1 || true
  for pod in $(kubectl get pods --namespace "$SYSTEM" -o name 2>/dev/null); do
    kubectl logs --namespace "$SYSTEM" --all-containers "$pod" >"$run/log/${pod##*/}.log" 2>&1 || true
    kubectl logs --namespace "$SYSTEM" --all-containers --previous "$pod" \
      >"$run/log/${pod##*/}.previous.log" 2>/dev/null || rm -f "$run/log/${pod##*/}.previous.log"
  done
  head -n 150 "$file" >&2
  tail -n 60 "$run"/log/nogoo9-*.log >&2 || true
  say "failed; logs are in $run/log"
}
finish() {
  local status=$?
  trap - EXIT INT TERM
  case $status in 0 | 130 | 143) ;; *) tell ;; esac # nothing to tell whoever pressed Ctrl-C
  down || status=1
  exit "$status"
}

build() {
  # All programs, as `make test` builds them: one set of features, so neither undoes the other's work.
  (cd "$root" && "$cargo" build "${cargo_flags[@]}" --workspace --bins)
  suite "${suites[@]}" -- --no-run
  suite "${local_suites[@]}" -- --no-run
  (cd "$root" && BUILD=0 PROFILE=$profile scripts/image.sh "$run/image")
}

cluster() {
  "$here/up.sh" "$run"
  "$here/load-image.sh" "$run" "$run"/image/*.tar
}

identity_provider() {
  mkdir -p "$run/idp"
  launch idp "$root/target/$profile/nogoo9" idp --listen "$HOST_IP:$IDP_PORT" --data-dir "$run/idp" \
    --audience "$public/mcp" --redirect-url "$public/auth/callback"
  await idp 60 curl -fs -m 2 --cacert "$run/idp/tls/ca.crt" "https://$HOST_IP:$IDP_PORT/.well-known/openid-configuration"
}

# Blocks of a language in README's section on installing.
blocks() { # language
  awk -v fence="\`\`\`$1" '
    /^## / { inside = $0 == "## Install on a cluster" }
    inside && /^```/ { open = !open && $0 == fence; next }
    inside && open' "$root/README.md"
}

# This cluster's own answers to what README leaves to the reader.
values() {
  cat <<YAML
publicUrl: $public
oidc:
  issuer: https://$HOST_IP:$IDP_PORT
  clientId: nogoo9
  ca:
    pem: |
$(sed 's/^/      /' "$run/idp/tls/ca.crt")
image:
  repository: localhost/nogoo9
  tag: dev
YAML
}

# What a reader does: write the file of values, run the commands.
install() {
  local reader=$run/reader entry file
  mkdir -p "$reader"
  # Looks like the checkout, so that the file lands beside the chart but not in the checkout.
  for entry in "$root"/*; do ln -sfn "$entry" "$reader/${entry##*/}"; done
  file=$(blocks yaml | sed -n '1s/^# \([a-z0-9.-]*\).*/\1/p')
  [ -n "$file" ] || die "README: the yaml block of 'Install on a cluster' does not name its file"
  values >"$reader/$file"
  blocks sh >"$run/install.sh"
  [ -s "$run/install.sh" ] || die "README: no commands in 'Install on a cluster'"
  (cd "$reader" && bash -euo pipefail "$run/install.sh")
}

# Suites run to the end even if one fails: it takes a while to come here. Of the whole workspace, since
# one package alone takes other features of what it depends on, and all of that would be built again.
suite() { # suite... [-- flags of cargo...]
  local names=()
  while (($# > 0)) && [ "$1" != -- ]; do
    names+=(--test "$1")
    shift
  done
  (cd "$root" && "$cargo" test "${cargo_flags[@]}" --no-fail-fast --workspace "${names[@]}" "${@:2}")
}

# What the suites are told; the fields are explained in tests/src/target/real.rs.
facts() {
  cat <<JSON
{
  "kubeconfig": "$run/admin.kubeconfig",
  "systemNamespace": "$SYSTEM",
  "workspacesNamespace": "$WORKSPACES",
  "publicUrl": "$public",
  "adminTokenSecret": "nogoo9-admin",
  "issuer": "https://$HOST_IP:$IDP_PORT",
  "idpDir": "$run/idp",
  "sampleImage": "localhost/nogoo9-sample:dev",
  "storageClass": "standard"
}
JSON
}

public=http://localhost:$PUBLIC_PORT
# One command for the shell, so that whoever edits this file while it runs does not change the run.
main() {
  local other
  if other=$(pid_of test); then die "make cluster-test runs already, as process $other"; fi
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  down
  rm -rf "$run/log"
  mkdir -p "$run/log" "$run/pid"
  record test $$
  claim_machine
  step "programs and images" build
  step "cluster" cluster
  step "smoke test" "$here/smoke.sh" "$run"
  step "identity provider" identity_provider
  export KUBECONFIG=$run/admin.kubeconfig PATH=$run/bin:$PATH
  step "chart" "$root/scripts/check-chart.sh" --server
  step "install, as README says" install
  facts >"$run/facts.json"
  NOGOO9_TEST_CLUSTER=$run/facts.json NOGOO9_TEST_NODES=$run step "suites" suite "${suites[@]}"
  # Last: it leaves Nodes behind that a scheduler would believe in for a while.
  NOGOO9_TEST_KUBECONFIG=$run/admin.kubeconfig step "parts of local mode, on this API server" \
    suite "${local_suites[@]}"
  exit
}
main
