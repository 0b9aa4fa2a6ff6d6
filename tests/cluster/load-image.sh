#!/usr/bin/env bash
# Loads image archives (OCI or Docker) into every node, and into those that boot later.
# usage: load-image.sh RUN ARCHIVE...
set -euo pipefail
run=$(cd "$1" && pwd)
shift
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

cp "$@" "$run/images/"
for file in "$run"/pid/node*; do
  name=${file##*/}
  if [[ $name = *-outer ]] || ! pid=$(pid_of "$name"); then continue; fi
  for archive in "$@"; do
    # containerd warns of cgroup v1 at every call.
    said=$(nsenter -t "$pid" -m -n -p "$run/bin/ctr" -n k8s.io images import --local \
      "$run/images/${archive##*/}" 2>&1) || die "$name does not take $archive: $said"
  done
done
