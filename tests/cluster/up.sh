#!/usr/bin/env bash
# Brings up a real Kubernetes: control plane and nodes. Again, it starts what does not run.
# usage: [NODES=2] up.sh RUN
set -euo pipefail
mkdir -p "$1"
run=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
case $run/ in /run/* | /var/log/* | /var/lib/*) die "$run: nodes cover that folder with one of their own" ;; esac
claim_machine

bin=$("$here/build.sh")
ln -sfn "$bin" "$run/bin"
mkdir -p "$run/images"
cp "$bin/images/"*.tar "$run/images/"
"$here/control-plane.sh" "$run"
nodes=()
for i in $(seq "${NODES:-2}"); do
  "$here/node.sh" "$run" "$i" &
  nodes+=($!)
done
for pid in "${nodes[@]}"; do wait "$pid"; done
