#!/usr/bin/env bash
# Checks that the cluster does what the suites take for granted of a Kubernetes. usage: smoke.sh RUN
set -euo pipefail
run=$(cd "$1" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
ns=smoke-$$ passed=0
k() { kubectl -n "$ns" "$@"; }
ok() { passed=$((passed + 1)) && say "ok $passed - $*"; }
trap 'k delete pod,pvc --all --wait=false >/dev/null; kubectl delete namespace "$ns" --wait=false >/dev/null' EXIT

# Waits until the command prints what is wanted.
becomes() { # wanted command...
  local wanted=$1 got='' tries=300
  shift
  while ((tries-- > 0)); do
    got=$("$@" 2>/dev/null) || got="(failed)"
    # shellcheck disable=SC2053 # a pattern
    if [[ $got == $wanted ]]; then return; fi
    sleep 0.2
  done
  k get pods,pvc,events >&2 || true
  die "not ok - wanted '$wanted', got '$got': $*"
}
field() { k get "$1" "$2" -o "jsonpath=$3"; } # kind name path
ready='{.status.conditions[?(@.type=="Ready")].status}'
waiting='{.status.containerStatuses[0].state.waiting.reason}'

pod() { # name image spec-fields container-fields
  cat <<JSON
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1", "labels": {"app": "$1"}}, "spec": {
  ${3:+$3,} "terminationGracePeriodSeconds": 10,
  "containers": [{"name": "c", "image": "$2", ${4:+$4,}
    "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}}]}}
JSON
}
volumes='"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]'
mounts='"volumeMounts": [{"name": "data", "mountPath": "/data"}]'
env() { echo "\"env\": [{\"name\": \"$1\", \"value\": \"$2\"}]"; }
page() { curl -fs -m 5 "http://$(field pod "$1" '{.status.podIP}'):8080$2"; } # pod path

kubectl create namespace "$ns" >/dev/null
becomes default field serviceaccount default '{.metadata.name}'

k create -f - >/dev/null <<JSON
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
 "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
JSON
pod first localhost/echo:1 "$volumes" "$mounts, $(env DATA /data)" | k create -f - >/dev/null
becomes True field pod first "$ready"
[ "$(page first /)" = first ]
ok "a pod with a claim is ready and answers at its address"
node=$(field pod first '{.spec.nodeName}')

# Of another name than the pod, which knows its own from /etc/hosts.
k create service clusterip web --tcp=80:8080 >/dev/null
k set selector service web app=first >/dev/null
address=$(field service web '{.spec.clusterIP}')
becomes first nsenter -t "$(pid_of node1)" -n curl -fs -m 2 "http://$address/"
ok "a Service leads to it"
becomes "$address" page first '/resolve?name=web'
becomes "no such host" page first '/resolve?name=example.com'
ok "pods find Services by name, and nothing outside"

curl -fs -m 5 -X POST "http://$(field pod first '{.status.podIP}'):8080/unready"
becomes False field pod first "$ready"
ok "a failing probe makes it unready"

address=$(field pod first '{.status.podIP}')
k delete pod first --timeout=60s >/dev/null
if curl -fs -m 5 "http://$address:8080/" >/dev/null; then die "not ok - $address answers after its pod's end"; fi
ok "deleted, its address is dead"
pod second localhost/echo:1 "$volumes" "$mounts, $(env DATA /data)" | k create -f - >/dev/null
becomes True field pod second "$ready"
[ "$(page second /starts)" = $'first\nsecond' ]
[ "$(field pod second '{.spec.nodeName}')" = "$node" ]
ok "the next pod with that claim finds the files, on the same node"

pod gated localhost/echo:1 '"schedulingGates": [{"name": "nogoo9/upgrade"}]' | k create -f - >/dev/null
becomes SchedulingGated field pod gated '{.status.conditions[?(@.type=="PodScheduled")].reason}'
k patch pod gated --type=json -p '[{"op": "remove", "path": "/spec/schedulingGates"}]' >/dev/null
becomes True field pod gated "$ready"
ok "a gated pod waits, and starts once the gate is gone"

pod none localhost/none:1 | k create -f - >/dev/null
becomes '@(ErrImagePull|ImagePullBackOff)' field pod none "$waiting"
ok "an image that does not exist is named as the reason"
pod crash localhost/echo:1 "" "$(env CRASH 'crashes as asked')" | k create -f - >/dev/null
becomes CrashLoopBackOff field pod crash "$waiting"
becomes 'crashes as asked' k logs crash --previous
ok "a crash loop is named, and its words are kept"

volume=$(field pvc data '{.spec.volumeName}')
k delete pod second --wait=false >/dev/null
k delete pvc data --timeout=60s >/dev/null
becomes "" kubectl get pv "$volume" --ignore-not-found
[ -z "$(find "$run/volumes" -name "$volume")" ]
ok "a deleted claim takes its files along"
say "$passed checks passed"
