{{/* What a schema cannot say. */}}
{{- define "nogoo9.check" -}}
{{- if eq .Values.workspaces.namespace .Release.Namespace -}}
{{- fail (printf "workspaces.namespace is '%s', which is the release's own: it holds session keys and records. Install with --namespace nogoo9-system, or name another for workspaces." .Release.Namespace) -}}
{{- end -}}
{{- $ca := .Values.oidc.ca -}}
{{- if gt (len (without (list $ca.pem $ca.existingConfigMap $ca.existingSecret) "")) 1 -}}
{{- fail "oidc.ca: set one of pem, existingConfigMap and existingSecret" -}}
{{- end -}}
{{- if and .Values.oidc.clientSecret.value .Values.oidc.clientSecret.existingSecret -}}
{{- fail "oidc.clientSecret: set one of value and existingSecret" -}}
{{- end -}}
{{- $shared := .Values.oidc.sharedSecret -}}
{{- if ne (empty $shared.issuer) (empty $shared.existingSecret) -}}
{{- fail "oidc.sharedSecret: set both issuer and existingSecret, or neither" -}}
{{- end -}}
{{- if and $shared.issuer (has $shared.issuer (append .Values.oidc.extraIssuers .Values.oidc.issuer)) -}}
{{- fail "oidc.sharedSecret.issuer: must be an issuer of its own, named by neither oidc.issuer nor oidc.extraIssuers" -}}
{{- end -}}
{{- if has .Values.oidc.issuer .Values.oidc.extraIssuers -}}
{{- fail "oidc.extraIssuers: names oidc.issuer, which counts already" -}}
{{- end -}}
{{- if and .Values.oidc.scopesClaim (not .Values.oidc.requireScopes) -}}
{{- fail "oidc.scopesClaim: means nothing without oidc.requireScopes" -}}
{{- end -}}
{{- end -}}
