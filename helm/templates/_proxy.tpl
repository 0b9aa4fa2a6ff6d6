{{/* The proxy's container. */}}
{{- define "nogoo9.proxyContainer" -}}
name: proxy
{{ include "nogoo9.container" . }}
command: [/nogoo9-proxy]
args:
  - --listen={{ .Values.bindAddress }}:9009
  - --admin-listen={{ .Values.bindAddress }}:9019
{{- $control := printf "http://%s.%s.svc:9010" (include "nogoo9.control" .) .Release.Namespace }}
{{- if eq .Values.layout "pod" }}{{ $control = "http://127.0.0.1:9010" }}{{ end }}
  - --control-url={{ $control }}
  - --session-keys={{ $control }}/.well-known/nogoo9-session-keys.json,/etc/nogoo9/session/jwks.json
  - --max-bearer-age={{ int .Values.sessions.maxBearerAge }}
{{- range .Values.limits.trustedProxies }}
  - {{ printf "--trusted-proxies=%s" . | quote }}
{{- end }}
{{- if .Values.limits.proxyProtocol }}
  - --proxy-protocol=true
{{- end }}
  - --max-connections={{ int .Values.limits.connections }}
  - --max-connections-per-client={{ int .Values.limits.connectionsPerClient }}
  - --hold-timeout={{ .Values.proxy.holdTimeout }}
  - --recreate-hold-timeout={{ .Values.proxy.recreateHoldTimeout }}
  - --drain={{ .Values.proxy.drain }}
  - --stop-timeout={{ .Values.proxy.stopTimeout }}
  - --peers={{ include "nogoo9.proxy" . }}-admin.{{ .Release.Namespace }}.svc:9019
  - --close-window={{ int .Values.proxy.closeWindow }}
{{- if .Values.proxy.socketIdleTimeout }}
  - --socket-idle-timeout={{ int .Values.proxy.socketIdleTimeout }}
{{- end }}
{{- if .Values.proxy.h2c }}
  - --h2c=true
{{- end }}
{{- if .Values.proxy.tls.secrets }}
  - --tls-dir=/etc/nogoo9/tls
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
  - name: session-keys
    mountPath: /etc/nogoo9/session
    readOnly: true
{{- range $n, $secret := .Values.proxy.tls.secrets }}
  - name: tls-{{ $n }}
    mountPath: /etc/nogoo9/tls/{{ printf "%02d-%s" $n $secret }}
    readOnly: true
{{- end }}
{{- end -}}

{{/* Public keys as control has published them, so that a proxy starts while control is away. Before
     the first control has run there are none. */}}
{{- define "nogoo9.proxyVolumes" -}}
- name: session-keys
  configMap:
    name: nogoo9-session-jwks
    optional: true
{{- range $n, $secret := .Values.proxy.tls.secrets }}
- name: tls-{{ $n }}
  secret:
    secretName: {{ $secret }}
{{- end }}
{{- end -}}

{{/* Stopping takes the drain, the requests in flight and the sockets beside them, and a little. */}}
{{- define "nogoo9.proxyGrace" -}}
{{- add .Values.proxy.drain (max .Values.proxy.stopTimeout (add .Values.proxy.closeWindow 5)) 15 -}}
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
