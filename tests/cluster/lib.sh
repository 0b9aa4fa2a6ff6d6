# shellcheck shell=bash disable=SC2034,SC2154 # others use what is set here, and set `run`
# What the scripts of the cluster share: addresses, and processes that are known by pid and start
# time. Sourced after `set -euo pipefail`; `run` is the folder of the cluster.

# 198.18.0.0/15 is kept free for benchmarks by RFC 2544 and routed nowhere. In it:
#   198.18.0.1       the API server, DNS and whatever pods shall reach on the host (on lo)
#   198.18.0.4i+1/2  the cable between the host and node i
#   198.18.i.0/24    pods of node i
#   198.19.0.0/24    Services
readonly RANGE=198.18.0.0/15 HOST_IP=198.18.0.1
readonly SERVICE_RANGE=198.19.0.0/24 SERVICE_API_IP=198.19.0.1
readonly API_PORT=6443
# Fixed, since one machine holds one cluster of this kind; `make cluster` says so when it finds another.
readonly ETCD_PORT=16440 ETCD_PEER_PORT=16441 CONTROLLERS_PORT=16442 SCHEDULER_PORT=16443
readonly DNS_READY_PORT=16444
# Whose cluster this machine holds at the moment.
readonly OWNER_FILE=/run/nogoo9-cluster.owner

say() { echo "cluster: $*" >&2; }
die() { say "$*"; exit 1; }

# Addresses, links and cgroups are the machine's, so there is one cluster on it; this one shall be it.
claim_machine() {
  local owner
  [ "$(id -u)" = 0 ] || die "nodes are made of Linux namespaces, links and cgroups: run as root"
  owner=$(cat "$OWNER_FILE" 2>/dev/null || true)
  if [ -n "$owner" ] && [ "$owner" != "$run" ] && compgen -G "$owner/pid/*" >/dev/null; then
    die "this machine holds the cluster of $owner; take it down first: make cluster-down CLUSTER=$owner"
  fi
  echo "$run" >"$OWNER_FILE"
}

node_ip() { echo "198.18.0.$((4 * $1 + 2))"; }
cable_ip() { echo "198.18.0.$((4 * $1 + 1))"; }
pod_range() { echo "198.18.$1.0/24"; }

# Start time of a process; fails for one that is gone or dead but not reaped (kill -0 would not).
birth() { # pid
  local stat fields
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # The name in parentheses may hold anything; what counts comes after it.
  read -ra fields <<<"${stat##*) }"
  [ "${fields[0]}" != Z ] && [ "${fields[0]}" != X ] && echo "${fields[19]}"
}

# Writes down a process, so that a pid that is used again is not mistaken for it.
record() { # name pid
  local born
  born=$(birth "$2") || return 1
  echo "$2 $born" >"$run/pid/$1"
}

# Pid of a recorded process, if it still is that process.
pid_of() { # name
  local pid born
  { read -r pid born <"$run/pid/$1"; } 2>/dev/null || return 1
  [ "$(birth "$pid")" = "$born" ] && echo "$pid"
}

# Starts a process in a session of its own (so that Ctrl-C is for the script alone), if it does not run.
launch() { # name command...
  local name=$1
  shift
  if pid_of "$name" >/dev/null; then return; fi
  setsid "$@" >>"$run/log/$name.log" 2>&1 </dev/null &
  record "$name" $! || true # gone already: `await` shows its log
}

# Waits until the command succeeds; gives up early if the process named is gone.
await() { # name seconds command...
  local name=$1 tries=$(($2 * 10))
  shift 2
  while ((tries-- > 0)); do
    if "$@" >/dev/null 2>&1; then return; fi
    pid_of "$name" >/dev/null || break
    sleep 0.1
  done
  say "$name is not ready; the end of $run/log/$name.log:"
  tail -n 20 "$run/log/$name.log" >&2
  return 1
}

# Ends recorded processes: TERM to all of them, then KILL to those that stay.
halt() { # seconds name...
  local tries pid name
  tries=$(($1 * 20))
  shift
  for name in "$@"; do
    if pid=$(pid_of "$name"); then kill "$pid" 2>/dev/null || true; fi
  done
  for name in "$@"; do
    while ((tries-- > 0)) && pid_of "$name" >/dev/null; do sleep 0.05; done
    if pid=$(pid_of "$name"); then
      kill -KILL "$pid" 2>/dev/null || true
      while pid_of "$name" >/dev/null; do sleep 0.05; done
    fi
    rm -f "$run/pid/$name"
  done
}

# A request to the API server as its admin.
api() { # path
  curl -fs -m 5 --cacert "$run/pki/ca.crt" --cert "$run/pki/admin.crt" --key "$run/pki/admin.key" \
    "https://$HOST_IP:$API_PORT$1"
}

kubectl() { "$run/bin/kubectl" --kubeconfig "$run/admin.kubeconfig" "$@"; }
