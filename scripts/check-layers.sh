#!/usr/bin/env bash
# Holds the crates to the house's rules about who may depend on whom (ARCHITECTURE.md).
set -euo pipefail
cd "$(dirname "$0")/.."

fail=0
# crate, then the crates that it must never reach, directly or not.
forbid() {
  local crate=$1 tree
  shift
  tree=$(cargo tree --locked --offline -p "$crate" -e normal --prefix none --format '{p}' 2>/dev/null ||
    cargo tree --locked -p "$crate" -e normal --prefix none --format '{p}')
  for other in "$@"; do
    if grep -qE "^$other v" <<<"$tree"; then
      echo "$crate must not depend on $other" >&2
      fail=1
    fi
  done
}
forbid nogoo9-model tokio kube kube-client pingora rand tracing reqwest
forbid nogoo9-proxy nogoo9-control nogoo9-local nogoo9-load
forbid nogoo9-control nogoo9-proxy nogoo9-local nogoo9-load pingora
forbid nogoo9-identity kube pingora nogoo9-control nogoo9-proxy
forbid nogoo9-load nogoo9-model nogoo9-control nogoo9-proxy
exit $fail
