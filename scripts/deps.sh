#!/usr/bin/env bash
# Checks what a build (or the tests) needs beyond the crates. As root on Debian it installs what is
# missing; otherwise it says what to run.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?usage: deps.sh build|lint|test|login|cluster|go}

packages=()
need() { command -v "$1" >/dev/null || packages+=("$2"); }
need cc gcc
need cmake cmake # zlib-ng, which the proxy library builds
need node nodejs # the console
need npm npm
if [ "$what" = test ] || [ "$what" = login ]; then
  [ -n "${CHROMIUM:-}" ] || need chromium chromium
  need python3 python3 # the Python MCP client
  python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
fi
[ "$what" != lint ] || need shellcheck shellcheck
if [ "$what" = cluster ]; then
  need curl curl
  need openssl openssl
  need ip iproute2
  need unshare util-linux
  need nft nftables # Services: kube-proxy writes their addresses there
  need pkg-config pkg-config
  [ -e /usr/include/seccomp.h ] || packages+=(libseccomp-dev) # runc
fi

if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing: ${packages[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  else
    echo "missing; please run: sudo apt-get install -y ${packages[*]}" >&2
    exit 1
  fi
fi

if ! command -v cargo >/dev/null; then
  echo "missing: cargo. Install Rust with rustup (https://rustup.rs); rust-toolchain.toml picks the version." >&2
  exit 1
fi

if [ "$what" = cluster ] && [ "$(id -u)" != 0 ]; then
  echo "make cluster needs root: nodes are made of Linux namespaces, links and cgroups" >&2
  exit 1
fi
if [ "$what" = cluster ] || [ "$what" = login ] || [ "$what" = go ]; then
  release=$(go env GOVERSION 2>/dev/null || true)
  release=${release#go1.}
  if [ "${release%%[!0-9]*}" -lt 26 ] 2>/dev/null || [ -z "$release" ]; then
    echo "missing: Go 1.26 or newer, which builds Kubernetes, an identity provider and h2spec: see https://go.dev/dl/" >&2
    exit 1
  fi
fi

if [ "$what" = test ] || [ "$what" = login ]; then
  if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    echo "missing: Node.js 20 or newer, for the browser and MCP client tests: sudo apt-get install -y nodejs npm" >&2
    exit 1
  fi
  if ! command -v kubectl >/dev/null; then
    echo "missing: kubectl, for the tests of the embedded API server: see https://kubernetes.io/docs/tasks/tools/" >&2
    exit 1
  fi
  for folder in tests/clients tests/browser tests/providers; do
    [ -f "$folder/package-lock.json" ] || continue
    # npm leaves a copy of the lock file behind; if it is the newer one, nothing is to be done.
    if [ ! "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then
      (cd "$folder" && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --loglevel=error)
    fi
  done
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "missing: Python 3.10 or newer, for the MCP client tests: sudo apt-get install -y python3 python3-venv" >&2
    exit 1
  fi
  # Not the system's packages: a folder of their own. Copied last, the list says that all of it is there.
  if [ ! -x target/python/bin/python ] || ! cmp -s tests/clients/requirements.txt target/python/requirements.txt; then
    python3 -m venv --clear target/python
    target/python/bin/pip install --quiet --no-compile --disable-pip-version-check --no-input -r tests/clients/requirements.txt
    cp tests/clients/requirements.txt target/python/
  fi
fi
