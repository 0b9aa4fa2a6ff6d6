#!/usr/bin/env bash
# Checks the chart: it lints, both layouts render, and mistakes in values are refused by name.
# usage: check-chart.sh            needs helm
#        check-chart.sh --server   also asks the API server of $KUBECONFIG, which changes nothing
set -euo pipefail
cd "$(dirname "$0")/.."

command -v helm >/dev/null || { echo "check-chart.sh: helm is not installed (Helm 3: https://helm.sh)" >&2; exit 1; }
good=(--set publicUrl=https://console.example.org
  --set workspaceDomain=ws.example.net
  --set oidc.issuer=https://login.example.org/realms/main
  --set oidc.clientId=nogoo9)
# A value of every kind that changes what is rendered.
everything=(--set sampleTemplate.enabled=true --set ingress.enabled=true --set ingress.className=x
  --set ingress.tlsSecret=tls --set pathHost=paths.example.com --set oidc.clientSecret.value=secret
  --set-file oidc.ca.pem=scripts/chart/example-ca.pem --set 'oidc.audiences={a,b}' --set 'oidc.adminSubs={c}'
  --set 'hostAliases[0].ip=192.0.2.1' --set 'hostAliases[0].hostnames={login.example.org}'
  --set 'networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring'
  --set 'networkPolicy.workspacesFrom[0].podSelector.matchLabels.app=x'
  --set proxy.service.type=NodePort --set proxy.service.nodePort=30080 --set proxy.service.externalTrafficPolicy=Local --set proxy.h2c=true --set proxy.closeWindow=60 --set proxy.socketIdleTimeout=3600 --set 'proxy.tls.secrets={console-tls,workspaces-tls}'
  --set workspaces.maxPerUser=5 --set 'workspaces.templateAuthors={erin,role:authors}' --set 'oidc.loginScopes={email,offline_access}' --set oidc.requireScopes=true
  --set oidc.scopesClaim=scp --set 'oidc.extraIssuers={https://login.example.net}'
  --set oidc.sharedSecret.issuer=urn:example:old --set oidc.sharedSecret.existingSecret=shared
  --set sessions.length=3600 --set sessions.keyRotation=31536000 --set 'sessions.roles={team-*}'
  --set limits.authFailuresPerMinute=0 --set 'limits.trustedProxies={10.0.0.0/8,fd00::/8}' \
  --set limits.proxyProtocol=true --set limits.connectionsPerClient=0
  --set proxy.nodeSelector.disk=ssd --set control.nodeSelector.disk=ssd --set 'image.pullSecrets={a}'
  --set 'proxy.extraArgs={--hold-max=5}' --set commonLabels.team=edge --set proxy.podLabels.a=b)
fail=0
no() { echo "check-chart.sh: $*" >&2; fail=1; }
# The version is named since an offline helm knows of no cluster.
render() { helm template nogoo9 helm --namespace nogoo9-system --kube-version 1.34.0 "$@"; }

helm lint helm --strict --quiet "${good[@]}" || fail=1

rendered() { # what options...
  local what=$1 out
  shift
  out=$(render "${good[@]}" "$@") || { no "$what does not render"; return; }
  if grep -nE '[[:space:]]$|<no value>|%!' <<<"$out"; then no "$what: odd lines"; fi
  if [[ $server != yes ]]; then return; fi
  # Into one namespace that exists: a server's dry run makes none.
  render "${good[@]}" --set workspaces.create=false "$@" |
    sed 's/namespace: nogoo9-\(system\|workspaces\)$/namespace: default/' |
    kubectl apply --dry-run=server --validate=strict -f - >/dev/null || no "$what: the API server refuses it"
}
refused() { # text options...
  local text=$1 out
  shift
  if out=$(render "${good[@]}" "$@" 2>&1); then
    no "taken, although wrong: $*"
  elif ! grep -qF -- "$text" <<<"$out"; then
    no "refused without naming '$text': $* said: $out"
  fi
}

server=no
[[ ${1:-} != --server ]] || server=yes
for layout in split pod; do
  rendered "layout $layout" --set layout=$layout
  rendered "layout $layout with everything" --set layout=$layout "${everything[@]}"
done
for kind in existingSecret existingConfigMap; do
  rendered "authorities from an $kind" --set oidc.ca.$kind=company-ca --set adminToken.existingSecret=token
done

refused /publicUrl --set publicUrl=
refused /publicUrl --set publicUrl=http://console.example.org
refused /publicUrl --set publicUrl=https://console.example.org/path
refused /workspaceDomain --set workspaceDomain=https://ws.example.net
refused /pathHost --set pathHost=https://paths.example.com
refused /oidc/issuer --set oidc.issuer=http://login.example.org
refused /oidc/clientId --set oidc.clientId=
refused /oidc/defaultRole --set oidc.defaultRole=admin
refused /oidc/ca/pem --set oidc.ca.pem=company-ca.pem
refused "oidc.ca: set one" --set oidc.ca.existingSecret=a --set oidc.ca.existingConfigMap=b
refused "oidc.clientSecret: set one" --set oidc.clientSecret.value=a --set oidc.clientSecret.existingSecret=b
refused /oidc/extraIssuers/0 --set 'oidc.extraIssuers={http://login.example.net}'
refused "oidc.extraIssuers: names" --set 'oidc.extraIssuers={https://login.example.org/realms/main}'
refused "oidc.sharedSecret: set both" --set oidc.sharedSecret.issuer=urn:example:old
refused "must be an issuer of its own" --set oidc.sharedSecret.issuer=https://login.example.org/realms/main \
  --set oidc.sharedSecret.existingSecret=shared
refused "means nothing without" --set oidc.scopesClaim=scp
refused /sessions/keyRotation --set sessions.keyRotation=5
refused /limits/trustedProxies/0 --set 'limits.trustedProxies={lb.example.org}'
refused /sessions/length --set sessions.length=60
refused /layout --set layout=both
refused "'replica' not allowed" --set proxy.replica=3
refused /proxy/replicas --set proxy.replicas=0
refused /proxy/tls/secrets/0 --set 'proxy.tls.secrets={Console_TLS}'
refused /proxy/service/externalTrafficPolicy --set proxy.service.externalTrafficPolicy=local
refused /proxy/extraArgs/0 --set 'proxy.extraArgs={hold-max=5}'
refused "which is the release's own" --set workspaces.namespace=nogoo9-system
refused /workspaces/podSecurity --set workspaces.podSecurity=none
refused /workspaces/maxPerUser --set workspaces.maxPerUser=-1
refused /image/digest --set image.digest=latest
exit $fail
