{{/* Names, labels and the parts that both layouts share. */}}

{{- define "nogoo9.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The parts' names; in layout pod both are one. */}}
{{- define "nogoo9.proxy" -}}{{ include "nogoo9.name" . }}-proxy{{- end -}}
{{- define "nogoo9.control" -}}{{ include "nogoo9.name" . }}-control{{- end -}}

{{/* Labels to select by; they never change. Called with (list . "proxy"). */}}
{{- define "nogoo9.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of an object. Called with (list . "proxy"). */}}
{{- define "nogoo9.labels" -}}
{{- $root := index . 0 -}}
{{ include "nogoo9.selector" . }}
app.kubernetes.io/part-of: nogoo9
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: none that changes without a reason to start pods anew. */}}
{{- define "nogoo9.podLabels" -}}
{{ include "nogoo9.selector" . }}
app.kubernetes.io/part-of: nogoo9
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Which pods are proxies and which are control, in either layout: while one layout follows the
     other, the pods of both count. */}}
{{- define "nogoo9.proxies" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
nogoo9/proxy: "true"
{{- end -}}
{{- define "nogoo9.controls" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
nogoo9/control: "true"
{{- end -}}

{{- define "nogoo9.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nogoo9.adminSecret" -}}
{{ .Values.adminToken.existingSecret | default (printf "%s-admin" (include "nogoo9.name" .)) }}
{{- end -}}

{{- define "nogoo9.clientSecret" -}}
{{- with .Values.oidc.clientSecret -}}
{{- if .existingSecret -}}{{ .existingSecret }}
{{- else if .value -}}{{ include "nogoo9.name" $ }}-client
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The volume with the provider's own authorities; empty if it has none. */}}
{{- define "nogoo9.caVolume" -}}
{{- with .Values.oidc.ca -}}
{{- if .existingSecret -}}
secret:
  secretName: {{ .existingSecret }}
  defaultMode: 0440
  items: [{key: {{ .key | quote }}, path: ca.crt}]
{{- else if .existingConfigMap -}}
configMap:
  name: {{ .existingConfigMap }}
  items: [{key: {{ .key | quote }}, path: ca.crt}]
{{- else if .pem -}}
configMap:
  name: {{ include "nogoo9.name" $ }}-issuer-ca
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags that proxy and control share. */}}
{{- define "nogoo9.commonArgs" -}}
- {{ printf "--public-url=%s" .Values.publicUrl | quote }}
{{- with .Values.workspaceDomain }}
- {{ printf "--workspace-domain=%s" . | quote }}
{{- end }}
{{- with .Values.pathHost }}
- {{ printf "--path-host=%s" . | quote }}
{{- end }}
- --workspaces-namespace={{ .Values.workspaces.namespace }}
- --admin-token-file=/etc/nogoo9/admin/token
{{- with .Values.oidc }}
- {{ printf "--issuer=%s" .issuer | quote }}
{{- range .audiences }}
- {{ printf "--audience=%s" . | quote }}
{{- end }}
- {{ printf "--roles-claim=%s" .rolesClaim | quote }}
- {{ printf "--admin-role=%s" .adminRole | quote }}
{{- range .adminSubs }}
- {{ printf "--admin-sub=%s" . | quote }}
{{- end }}
- --default-role={{ .defaultRole }}
{{- range .extraIssuers }}
- {{ printf "--extra-issuer=%s" . | quote }}
{{- end }}
{{- if .requireScopes }}
- --scopes=on
{{- end }}
{{- with .scopesClaim }}
- {{ printf "--scopes-claim=%s" . | quote }}
{{- end }}
{{- if .sharedSecret.issuer }}
- {{ printf "--shared-secret-issuer=%s" .sharedSecret.issuer | quote }}
- --shared-secret-file=/etc/nogoo9/shared/secret
{{- end }}
{{- end }}
- --session-grace={{ int .Values.sessions.grace }}
- --auth-failures-per-minute={{ int .Values.limits.authFailuresPerMinute }}
{{- if include "nogoo9.caVolume" . }}
- --issuer-ca-file=/etc/nogoo9/issuer/ca.crt
{{- end }}
- {{ printf "--log=%s" .Values.log.filter | quote }}
- --log-format={{ .Values.log.format }}
{{- end -}}

{{/* What every container has. */}}
{{- define "nogoo9.container" -}}
image: {{ include "nogoo9.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "nogoo9.liveness" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ . }}}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- define "nogoo9.readiness" -}}
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
{{- end -}}

{{/* What every pod has. */}}
{{- define "nogoo9.pod" -}}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where a pod runs, by the values of its part; empty if they say nothing. */}}
{{- define "nogoo9.placement" -}}
{{- $said := dict -}}
{{- range $key := list "nodeSelector" "tolerations" "priorityClassName" "affinity" "topologySpreadConstraints" -}}
{{- with get $ $key -}}{{- $_ := set $said $key . -}}{{- end -}}
{{- end -}}
{{- with $said }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "nogoo9.commonMounts" -}}
- name: admin-token
  mountPath: /etc/nogoo9/admin
  readOnly: true
{{- if include "nogoo9.caVolume" . }}
- name: issuer-ca
  mountPath: /etc/nogoo9/issuer
  readOnly: true
{{- end }}
{{- if .Values.oidc.sharedSecret.issuer }}
- name: shared-secret
  mountPath: /etc/nogoo9/shared
  readOnly: true
{{- end }}
{{- end -}}

{{- define "nogoo9.commonVolumes" -}}
- name: admin-token
  secret:
    secretName: {{ include "nogoo9.adminSecret" . }}
    defaultMode: 0440
    items: [{key: {{ .Values.adminToken.key | quote }}, path: token}]
{{- with include "nogoo9.caVolume" . }}
- name: issuer-ca
{{- . | nindent 2 }}
{{- end }}
{{- if .Values.oidc.sharedSecret.issuer }}
- name: shared-secret
  secret:
    secretName: {{ .Values.oidc.sharedSecret.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .Values.oidc.sharedSecret.key | quote }}, path: secret}]
{{- end }}
{{- end -}}

{{/* Pods start anew when what they read once has changed. */}}
{{- define "nogoo9.checksums" -}}
checksum/settings: {{ list .Values.oidc.ca.pem .Values.oidc.clientSecret.value | toJson | sha256sum }}
{{- end -}}
