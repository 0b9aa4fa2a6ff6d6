#!/usr/bin/env bash
# Stops a node with everything on it: in order, or with KILL as a power cut does. The API server keeps
# its Node and Pods either way; node.sh boots it again. usage: node-stop.sh RUN I [KILL]
set -euo pipefail
run=$1 i=$2
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
name=node$i

if [ "${3:-}" = KILL ] && pid=$(pid_of "$name"); then kill -KILL "$pid"; fi
halt 10 "$name" "$name-outer"

# The kernel ends the node's processes after its first one. Their cgroups, if left behind, would slow
# the next kubelet down by 3 s each.
left() { find /sys/fs/cgroup -maxdepth 2 -type d -name "nogoo9-$name"; }
for _ in $(seq 600); do
  left | while read -r group; do find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
  [ -n "$(left)" ] || exit 0
  sleep 0.1
done
die "cgroups of $name are still in use: $(left | tr '\n' ' ')"
