#!/usr/bin/env bash
# Builds Kubernetes, etcd, containerd, runc, CNI plugins, DNS and Helm from the Go modules beside this
# file, once, and prints the folder of the binaries. What is built is pinned by the go.sum files.
set -euo pipefail
cd "$(dirname "$0")/go"
kubernetes=1.37.2 containerd=v2.4.2 helm=v3.22.0

# Whatever can change a binary is part of the name of its folder. So is this file.
inputs() {
  go version
  find ../build.sh ../pack-image.sh . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}
key=$(inputs | sha256sum | cut -c1-32)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nogoo9/cluster
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two checkouts may ask at once
if [ -d "$cache/$key" ]; then
  touch "$cache/$key"
  echo "$cache/$key"
  exit
fi

echo "cluster: building Kubernetes and what it needs; the first time takes 15 minutes on two cores" >&2
out=$cache/unfinished
rm -rf "$out"
mkdir "$out"
# Another flag or another value of CGO_ENABLED would make Go's build cache useless: 7 minutes more.
export GOFLAGS="-trimpath -buildvcs=false" GOWORK=off
build() { # folder linker-flags arguments...
  local folder=$1 linker=$2 begin=$SECONDS
  shift 2
  (cd "$folder" && go build -ldflags "-s -w $linker" -o "$out/" "$@" >&2)
  echo "cluster: $folder: $((SECONDS - begin)) s" >&2
}

# Without a version every client would be told v0.0.0.
version=k8s.io/component-base/version
minor=${kubernetes#*.}
CGO_ENABLED=0 build kube \
  "-X $version.gitVersion=v$kubernetes -X $version.gitMajor=${kubernetes%%.*} -X $version.gitMinor=${minor%.*}" \
  k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,scheduler,proxy} \
  k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kubectl
(cd kube && CGO_ENABLED=0 go build -ldflags "-s -w" -o "$out/etcd" go.etcd.io/etcd/server/v3 >&2)

CGO_ENABLED=0 build node "-X github.com/containerd/containerd/v2/version.Version=$containerd" \
  github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
CGO_ENABLED=0 build node "" \
  github.com/containernetworking/plugins/plugins/{main/ptp,main/loopback,ipam/host-local}
# The kubelet gives every sandbox the default seccomp profile, which runc must be able to apply.
CGO_ENABLED=1 build node "" -tags seccomp github.com/opencontainers/runc

CGO_ENABLED=0 build helm "-X helm.sh/helm/v3/internal/version.version=$helm" helm.sh/helm/v3/cmd/helm
CGO_ENABLED=0 build addons "" ./dns ./provisioner
mkdir "$out/images"
(cd images && CGO_ENABLED=0 go build -ldflags "-s -w" -o "$out/images/" ./pause ./echo >&2)
for name in pause echo; do
  ../pack-image.sh "$out/images/$name.tar" "localhost/$name:1" "$out/images/$name"
  rm "$out/images/$name"
done

mv "$out" "$cache/$key"
# shellcheck disable=SC2012 # names are hashes
ls -dt "$cache"/*/ | tail -n +4 | xargs -r rm -r
echo "$cache/$key"
