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
{{- end -}}
