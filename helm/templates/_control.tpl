{{/* Control's container. */}}
{{- define "nogoo9.controlContainer" -}}
name: control
{{ include "nogoo9.container" . }}
command: [/nogoo9-control]
args:
{{- if eq .Values.layout "pod" }}
  - --listen=127.0.0.1:9010
{{- else }}
  - --listen={{ .Values.bindAddress }}:9010
{{- end }}
  - --admin-listen={{ .Values.bindAddress }}:9020
  - --namespace={{ .Release.Namespace }}
  - --proxy-service={{ include "nogoo9.proxy" . }}-admin
  - {{ printf "--client-id=%s" .Values.oidc.clientId | quote }}
{{- if include "nogoo9.clientSecret" . }}
  - --client-secret-file=/etc/nogoo9/client/secret
{{- end }}
  - {{ printf "--login-scopes=%s" (join "," .Values.oidc.loginScopes) | quote }}
{{- with .Values.sessions }}
  - --session-length={{ int .length }}
  - --session-unrefreshable={{ int .unrefreshable }}
  - --session-key-rotation={{ int .keyRotation }}
  - {{ printf "--session-roles=%s" (join "," .roles) | quote }}
{{- end }}
{{- with .Values.workspaces.maxPerUser }}
  - --max-workspaces-per-user={{ int . }}
{{- end }}
{{- range .Values.workspaces.templateAuthors }}
  - {{ printf "--template-author=%s" . | quote }}
{{- end }}
{{- include "nogoo9.commonArgs" . | nindent 2 }}
{{- range .Values.control.extraArgs }}
  - {{ . | quote }}
{{- end }}
env:
  # The name by which each of several stands for election.
  - name: NOGOO9_INSTANCE
    valueFrom:
      fieldRef: {fieldPath: metadata.name}
{{- with .Values.control.extraEnv }}
{{- toYaml . | nindent 2 }}
{{- end }}
ports:
{{- if ne .Values.layout "pod" }}
  - name: control
    containerPort: 9010
{{- end }}
  - name: control-admin
    containerPort: 9020
{{ include "nogoo9.liveness" "control-admin" }}
{{- if eq .Values.layout "pod" }}
# The proxy beside it serves until its drain is over, and so does control. It has no readiness of its
# own here: workspaces are served while it is away.
lifecycle:
  preStop:
    sleep: {seconds: {{ add .Values.proxy.drain 3 }}}
{{- else }}
{{ include "nogoo9.readiness" "control-admin" }}
# Proxies learn that this pod is leaving before it stops to listen.
lifecycle:
  preStop:
    sleep: {seconds: 3}
{{- end }}
resources:
{{- toYaml .Values.control.resources | nindent 2 }}
volumeMounts:
{{- include "nogoo9.commonMounts" . | nindent 2 }}
{{- if include "nogoo9.clientSecret" . }}
  - name: client-secret
    mountPath: /etc/nogoo9/client
    readOnly: true
{{- end }}
{{- end -}}

{{- define "nogoo9.controlVolumes" -}}
{{- with include "nogoo9.clientSecret" . -}}
- name: client-secret
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{key: {{ $.Values.oidc.clientSecret.existingSecret | empty | ternary "client-secret" $.Values.oidc.clientSecret.key | quote }}, path: secret}]
{{- end }}
{{- end -}}
