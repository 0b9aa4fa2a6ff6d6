#!/usr/bin/env bash
# What failed in a long log, in short: put last, it is what one sees of a run whose log is cut.
# usage: failures.sh LOG
set -euo pipefail
# From each mark of a failure the lines that say why; each cut, since a state can be pages in a line.
awk '
  /panicked at |\.\.\. FAILED|^---- .* stdout ----|^error(\[|:)|^[a-z-]+: failed/ { left = 6 }
  left > 0 { print substr($0, 1, 500); left-- }
' "$1" | tail -n 80
