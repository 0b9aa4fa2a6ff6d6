#!/usr/bin/env bash
# Brings up a real Kubernetes: control plane and nodes. Again, it starts what does not run.
# usage: [NODES=2] up.sh RUN
set -euo pipefail
mkdir -p "$1"
run=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh"
[ "$(id -u)" = 0 ] || die "nodes are made of Linux namespaces, links and cgroups: run as root"
case $run/ in /run/* | /var/log/* | /var/lib/*) die "$run: nodes cover that folder with one of their own" ;; esac

# Addresses, links and cgroups are the machine's, so there is one cluster on it.
owner=$(cat "$OWNER_FILE" 2>/dev/null || true)
if [ -n "$owner" ] && [ "$owner" != "$run" ] && compgen -G "$owner/pid/*" >/dev/null; then
  die "this machine holds the cluster of $owner; take it down first: $here/down.sh $owner"
fi
echo "$run" >"$OWNER_FILE"

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
