{{/* The proxy's container. */}}
{{- define "nogoo9.proxyContainer" -}}
name: proxy
{{ include "nogoo9.container" . }}
command: [/nogoo9-proxy]
args:
  - --listen={{ .Values.bindAddress }}:9009
  - --admin-listen={{ .Values.bindAddress }}:9019
{{- if eq .Values.layout "pod" }}
  - --control-url=http://127.0.0.1:9010
{{- else }}
  - --control-url=http://{{ include "nogoo9.control" . }}.{{ .Release.Namespace }}.svc:9010
{{- end }}
  - --hold-timeout={{ .Values.proxy.holdTimeout }}
  - --drain={{ .Values.proxy.drain }}
  - --stop-timeout={{ .Values.proxy.stopTimeout }}
{{- if .Values.proxy.h2c }}
  - --h2c=true
{{- end }}
{{- include "nogoo9.commonArgs" . | nindent 2 }}
{{- range .Values.proxy.extraArgs }}
  - {{ . | quote }}
{{- end }}
{{- with .Values.proxy.extraEnv }}
env:
{{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: http
    containerPort: 9009
  - name: admin
    containerPort: 9019
{{ include "nogoo9.liveness" "admin" }}
{{ include "nogoo9.readiness" "admin" }}
resources:
{{- toYaml .Values.proxy.resources | nindent 2 }}
volumeMounts:
{{- include "nogoo9.commonMounts" . | nindent 2 }}
{{- end -}}

{{/* Stopping takes the drain, the requests in flight, and a little. */}}
{{- define "nogoo9.proxyGrace" -}}
{{- add .Values.proxy.drain .Values.proxy.stopTimeout 15 -}}
{{- end -}}

{{/* Where proxies run: on different nodes if that can be. */}}
{{- define "nogoo9.proxyPlacement" -}}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict
      "weight" 100
      "podAffinityTerm" (dict
        "topologyKey" "kubernetes.io/hostname"
        "labelSelector" (dict "matchLabels" (include "nogoo9.proxies" . | fromYaml))
      )))) -}}
{{- include "nogoo9.placement" (merge (dict "affinity" (.Values.proxy.affinity | default $apart)) .Values.proxy) -}}
{{- end -}}
