#!/usr/bin/env bash
# Builds the console into ui/dist, which control carries. Does nothing when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/../ui"

if ! command -v npm >/dev/null || ! node -e '
  const [major, minor] = process.versions.node.split(".").map(Number);
  process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'; then
  echo "missing: Node.js 20.19 or newer with npm, to build the console: https://nodejs.org, or your distribution's nodejs and npm" >&2
  exit 1
fi

# npm leaves a copy of the lock file behind; if it is the newer one, nothing is to be installed.
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
  npm ci --no-audit --no-fund --loglevel=error
fi
if [ "${1:-build}" = check ]; then
  exec npm run --silent check
fi
sources=$(find src public index.html package-lock.json tsconfig.json vite.config.ts -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
stamp=node_modules/.console-built
if [ ! -f dist/index.html ] || [ "$(cat $stamp 2>/dev/null)" != "$sources" ]; then
  npm run --silent build
  echo "$sources" >$stamp
fi
