#!/usr/bin/env bash
# Builds h2spec, a conformance suite for HTTP/2, into target/h2spec. Its version, and that of all that it
# is made of, is pinned by go.mod and go.sum beside this file; Go's own cache makes a second build short.
set -euo pipefail
cd "$(dirname "$0")"
out=$(cd ../.. && pwd)/target/h2spec
mkdir -p "$out"
GOWORK=off CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out/h2spec" github.com/summerwind/h2spec/cmd/h2spec
