#!/usr/bin/env bash
# Packs one static binary as an image that containerd imports. The test's own small images need no more.
# usage: pack-image.sh OUT.tar NAME:TAG BINARY
set -euo pipefail
out=$1 reference=$2 binary=$3
entry=/$(basename "$binary")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
# The same binary gives the same bytes, hence the same image id on every node.
same=(--owner=0 --group=0 --numeric-owner --sort=name --mtime=@0)

mkdir -p "$work/root/tmp"
chmod 1777 "$work/root/tmp"
install -m755 "$binary" "$work/root$entry"
tar "${same[@]}" -C "$work/root" -cf "$work/layer.tar" .
digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
cat >"$work/config.json" <<JSON
{"architecture":"amd64","os":"linux","config":{"Entrypoint":["$entry"],"WorkingDir":"/"},
"rootfs":{"type":"layers","diff_ids":["sha256:$digest"]}}
JSON
echo "[{\"Config\":\"config.json\",\"RepoTags\":[\"$reference\"],\"Layers\":[\"layer.tar\"]}]" >"$work/manifest.json"
tar "${same[@]}" -C "$work" -cf "$out" manifest.json config.json layer.tar
