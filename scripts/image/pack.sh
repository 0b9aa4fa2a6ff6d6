#!/usr/bin/env bash
# Packs files into an image that needs no registry, no daemon and no root to be made: an OCI image
# layout in a tar, with the manifest.json that `docker load` looks for beside it. containerd (`ctr
# images import`), docker, podman and skopeo all take it. The same files give the same bytes.
#
# usage: pack.sh OUT.tar NAME[,NAME...] TITLE FILE[=PATH]...
#   NAME  as registries have it, such as localhost/nogoo9:dev
#   FILE  goes to PATH in the image (default: /basename). A directory's path ends in a slash and has
#         no FILE: `=/data/`. The shared libraries that FILEs need come along.
# ENTRYPOINT=PATH: what runs where a pod names no command of its own.
set -euo pipefail
umask 022

out=$1 names=$2 title=$3
shift 3
case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) echo "pack.sh: no image architecture is known for $(uname -m)" >&2; exit 1 ;;
esac
# Nobody's files, nobody's time: else the same files would give other bytes tomorrow.
date=1970-01-01T00:00:00Z
tar_as_is=(tar --format=ustar --owner=0 --group=0 --numeric-owner --sort=name --mtime="$date")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
base=$work/base app=$work/app blobs=$work/layout/blobs/sha256
mkdir -p "$base/etc" "$base/tmp" "$app" "$blobs"
chmod 1777 "$base/tmp"
# 65532 is the customary number of a user without rights.
echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$base/etc/passwd"
echo 'nonroot:x:65532:' >"$base/etc/group"
# The C library looks names up by itself, in these places, without further libraries.
echo 'hosts: files dns' >"$base/etc/nsswitch.conf"

for pair in "$@"; do
  file=${pair%%=*}
  path=/$(basename "$file")
  [[ $pair != *=* ]] || path=${pair#*=}
  if [[ $path == */ ]]; then
    mkdir -p "$app$path"
    chmod 1777 "$app$path"
    continue
  fi
  mode=644
  [[ ! -x $file ]] || mode=755
  install -D -m "$mode" "$file" "$app$path"
  # Dynamic linking is no shortcut here: these are the very files that the tests ran, and every
  # library is taken from where they found it.
  ldd "$file" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' |
    while read -r library; do
      install -D -m 755 "$library" "$base$library"
    done || true
done

# blob FILE: moves a file to where its digest says, and prints the digest.
blob() {
  local sum
  sum=$(sha256sum "$1" | cut -d' ' -f1)
  mv "$1" "$blobs/$sum"
  echo "$sum"
}
size() { stat -c %s "$blobs/$1"; }

# The libraries are a layer of their own: they stay the same when the programs change.
"${tar_as_is[@]}" -C "$base" -cf "$work/base.tar" .
"${tar_as_is[@]}" -C "$app" -cf "$work/app.tar" .
base=$(blob "$work/base.tar")
app=$(blob "$work/app.tar")

cat >"$work/config" <<J
{"created":"$date","architecture":"$arch","os":"linux",
"config":{${ENTRYPOINT:+"\"Entrypoint\":[\"$ENTRYPOINT\"],"}"User":"65532:65532","WorkingDir":"/","Env":["PATH=/:/usr/bin:/bin"],
"Labels":{"org.opencontainers.image.title":"$title","org.opencontainers.image.licenses":"Apache-2.0"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$base","sha256:$app"]},
"history":[{"created":"$date","comment":"libraries"},{"created":"$date","comment":"programs"}]}
J
config=$(blob "$work/config")

oci=application/vnd.oci.image
cat >"$work/manifest" <<J
{"schemaVersion":2,"mediaType":"$oci.manifest.v1+json",
"config":{"mediaType":"$oci.config.v1+json","digest":"sha256:$config","size":$(size "$config")},
"layers":[
{"mediaType":"$oci.layer.v1.tar","digest":"sha256:$base","size":$(size "$base")},
{"mediaType":"$oci.layer.v1.tar","digest":"sha256:$app","size":$(size "$app")}]}
J
manifest=$(blob "$work/manifest")

entries='' tags=''
IFS=, read -ra all <<<"$names"
for name in "${all[@]}"; do
  entries+=${entries:+,}$(
    cat <<J
{"mediaType":"$oci.manifest.v1+json","digest":"sha256:$manifest","size":$(size "$manifest"),
"platform":{"architecture":"$arch","os":"linux"},
"annotations":{"io.containerd.image.name":"$name","org.opencontainers.image.ref.name":"${name##*:}"}}
J
  )
  tags+=${tags:+,}\"$name\"
done
layout=$work/layout
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
echo "{\"schemaVersion\":2,\"mediaType\":\"$oci.index.v1+json\",\"manifests\":[$entries]}" >"$layout/index.json"
cat >"$layout/manifest.json" <<J
[{"Config":"blobs/sha256/$config","RepoTags":[$tags],"Layers":["blobs/sha256/$base","blobs/sha256/$app"]}]
J
mkdir -p "$(dirname "$out")"
"${tar_as_is[@]}" -C "$layout" -cf "$out.new" oci-layout index.json manifest.json blobs
mv "$out.new" "$out"
echo "$out: $names, $(($(stat -c %s "$out") / 1048576)) MiB, manifest sha256:$manifest"
