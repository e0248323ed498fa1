{{/* The gateway's container, its probes, and what is mounted. */}}

{{- define "oncegate.container" -}}
name: gateway
image: {{ include "oncegate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/oncegate/config/oncegate.toml]
env:
  - name: POD_IP
    valueFrom:
      fieldRef: {fieldPath: status.podIP}
  - name: ONCEGATE_HOSTS
    value: {{ include "oncegate.hosts" . | quote }}
  - name: NUMBA_CACHE_DIR
    value: /kernels
  {{- with .Values.extraEnv }}{{ toYaml . | nindent 2 }}{{ end }}
ports:
  - {name: http, containerPort: 8080}
  - {name: health, containerPort: 8081}
  {{- if .Values.grpc.enabled }}
  - {name: grpc, containerPort: {{ .Values.grpc.port | int }}}
  {{- end }}
# Started: the ledgers were opened once, also of a standby. Live: the event loop answers, whatever becomes of the ledger.
# Ready: a namespace is served from here, so of several pods only the owner is.
startupProbe:
  httpGet: {path: /healthz/startup, port: health}
  periodSeconds: {{ .Values.probes.startup.periodSeconds | int }}
  failureThreshold: {{ .Values.probes.startup.failureThreshold | int }}
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz/live, port: health}
  periodSeconds: {{ .Values.probes.liveness.periodSeconds | int }}
  failureThreshold: {{ .Values.probes.liveness.failureThreshold | int }}
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /healthz/ready, port: health}
  periodSeconds: {{ .Values.probes.readiness.periodSeconds | int }}
  failureThreshold: {{ .Values.probes.readiness.failureThreshold | int }}
  timeoutSeconds: 2
{{- if .Values.drain.preStopSeconds }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ .Values.drain.preStopSeconds | int }}
{{- end }}
securityContext: {{- include "oncegate.containerSecurity" . | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/oncegate/config, readOnly: true}
  - {name: kernels, mountPath: /kernels}
  - {name: tmp, mountPath: /tmp}
  {{- range $name, $secret := include "oncegate.secrets" . | fromYaml }}
  - {name: {{ $name }}, mountPath: /etc/oncegate/{{ $name }}, readOnly: true}
  {{- end }}
  {{- if eq .Values.ledger "embedded" }}
  - {name: data, mountPath: /data}
  {{- end }}
  {{- if include "oncegate.witness" . }}
  - {name: witness, mountPath: /witness}
  {{- end }}
  {{- if .Values.runs.sizeLimit }}
  - {name: runs, mountPath: /runs}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- define "oncegate.volumes" -}}
- name: config
  configMap:
    name: {{ include "oncegate.fullname" . }}
- name: kernels
  emptyDir: {sizeLimit: 64Mi}
- name: tmp
  emptyDir: {sizeLimit: 128Mi}
{{- range $name, $secret := include "oncegate.secrets" . | fromYaml }}
- name: {{ $name }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    items: {{- toYaml $secret.items | nindent 6 }}
{{- end }}
{{- if and (eq .Values.ledger "embedded") (not .Values.embedded.persistent) }}
- name: data
  emptyDir: {sizeLimit: {{ .Values.embedded.size }}}
{{- end }}
{{- if .Values.runs.sizeLimit }}
- name: runs
  emptyDir: {sizeLimit: {{ .Values.runs.sizeLimit }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Secrets that are mounted whole, not by subPath: the gateway takes a change of their files without a restart. */}}
{{- define "oncegate.secrets" -}}
{{- with .Values.keys }}{{ if .existingSecret }}
keys: {name: {{ .existingSecret }}, items: [{key: {{ .key | quote }}, path: keys.json}]}
{{- end }}{{ end }}
{{- with .Values.masterKey }}{{ if .existingSecret }}
master-key: {name: {{ .existingSecret }}, items: [{key: {{ .key | quote }}, path: key}]}
{{- end }}{{ end }}
{{- with .Values.oldMasterKey }}{{ if .existingSecret }}
old-master-key: {name: {{ .existingSecret }}, items: [{key: {{ .key | quote }}, path: key}]}
{{- end }}{{ end }}
{{- with .Values.password }}{{ if .existingSecret }}
password: {name: {{ .existingSecret }}, items: [{key: {{ .key | quote }}, path: password}]}
{{- end }}{{ end }}
{{- with .Values.tls }}{{ if .existingSecret }}
tls:
  name: {{ .existingSecret }}
  items:
    {{- if .ca }}
    - {key: {{ .ca | quote }}, path: ca.pem}
    {{- end }}
    {{- if .certificate }}
    - {key: {{ .certificate | quote }}, path: certificate.pem}
    - {key: {{ .privateKey | quote }}, path: key.pem}
    {{- end }}
{{- end }}{{ end }}
{{- end }}
