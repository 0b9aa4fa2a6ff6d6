#!/usr/bin/env bash
# What happens to clusters in real life, on demand. Each fault has its remedy beside it.
#
#   fault.sh RUN kill PART      a process of the control plane dies: etcd, kube-apiserver, ...
#   fault.sh RUN start          all those that have died are started again
#   fault.sh RUN kill-container I ID   the process of a container dies; its kubelet starts another
#
#   fault.sh RUN power-cut I    the node is gone with everything on it, and nobody is told
#   fault.sh RUN boot I         it comes back; its pods start again, at other addresses
#   fault.sh RUN cut-api I      it and its pods lose the API server; the pods serve on
#   fault.sh RUN heal-api I
#   fault.sh RUN cut I          nobody can reach it or its pods; they run on
#   fault.sh RUN heal I
#   fault.sh RUN drain I        evicts its pods and takes no new ones
#   fault.sh RUN cordon I       takes no new pods
#   fault.sh RUN uncordon I     remedy of both
set -euo pipefail
run=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
fault=$2 i=${3:-}
inside() { nsenter -t "$(pid_of "node$i" || die "node$i does not run")" -n "$@"; }

case $fault in
kill)
  pid=$(pid_of "$3") || die "$3 does not run"
  kill -KILL "$pid"
  while pid_of "$3" >/dev/null; do sleep 0.02; done
  ;;
start) "$here/control-plane.sh" "$run" ;;
kill-container)
  # Its own pid namespace keeps a container's first process from signals that come from inside only.
  nsenter -t "$(pid_of "node$i" || die "node$i does not run")" -m -n -p \
    "$run/bin/ctr" -n k8s.io task kill -s SIGKILL "${4:?id of a container}"
  ;;
power-cut) "$here/node-stop.sh" "$run" "$i" KILL ;;
boot) "$here/node.sh" "$run" "$i" ;;
cut-api)
  inside ip route replace blackhole "$HOST_IP"
  # The other way, too: what the API server still sent on open connections would be heard.
  inside nft "add table ip cut; add chain ip cut replies { type filter hook prerouting priority raw; };
    add rule ip cut replies ip saddr $HOST_IP drop"
  ;;
heal-api)
  inside nft delete table ip cut
  inside ip route del blackhole "$HOST_IP"
  ;;
cut) ip link set "nogoo9-$i" down ;;
heal)
  ip link set "nogoo9-$i" up
  # The kernel dropped it with the link.
  ip route replace "$(pod_range "$i")" via "$(node_ip "$i")" dev "nogoo9-$i"
  ;;
drain) kubectl drain "node$i" --ignore-daemonsets --delete-emptydir-data --force --timeout=120s ;;
cordon) kubectl cordon "node$i" ;;
uncordon) kubectl uncordon "node$i" ;;
*) die "no such fault: $fault" ;;
esac
