#!/usr/bin/env bash
# Builds the images: nogoo9.tar with both binaries, and nogoo9-sample.tar with the sample workspace
# of the tests and the demo. Neither a registry nor a container tool is needed.
#
# usage: image.sh [OUT_DIR]        (default: target/image)
#   PROFILE=release|debug   which binaries [default: release]
#   TAG=TAG                 tag of both images [default: dev]
#   BUILD=0                 take the binaries that are there, instead of building them
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-release} tag=${TAG:-dev} out=${1:-target/image}
case $profile in
  release) flags=(--release) ;;
  debug) flags=() ;;
  *) echo "image.sh: PROFILE=$profile is neither release nor debug" >&2; exit 2 ;;
esac
if [[ ${BUILD:-1} != 0 ]]; then
  # As `make build` does, so that neither undoes the other's work.
  "${CARGO:-cargo}" build "${flags[@]}" --workspace --bins
fi
bin=target/$profile

scripts/image/pack.sh "$out/nogoo9.tar" "localhost/nogoo9:$tag" nogoo9 \
  "$bin/nogoo9-proxy" "$bin/nogoo9-control"

# A workspace has a shell, and what people type into one.
tools=(/bin/bash=/bin/bash /bin/dash=/bin/sh)
for tool in cat cp date env head id ls mkdir mv rm sha256sum sleep stat tail touch wc; do
  found=$(command -v "$tool")
  tools+=("$found=/bin/$tool")
done
ENTRYPOINT=/nogoo9-sample scripts/image/pack.sh "$out/nogoo9-sample.tar" "localhost/nogoo9-sample:$tag" nogoo9-sample \
  "$bin/nogoo9-sample" "${tools[@]}" =/data/ =/home/
