{{/* The gateway's file of settings. Numbers are written by toJson: a template would write 33554432 as 3.3554432e+07. */}}

{{- define "oncegate.settings" -}}
ledger = {{ include "oncegate.ledgerUrl" . | quote }}
{{- with include "oncegate.witness" . }}
witness = {{ . | quote }}
{{- end }}
host = {{ ternary "::" "0.0.0.0" (eq .Values.service.ipFamily "IPv6") | quote }}
port = 8080
health_port = 8081
{{- if .Values.keys.existingSecret }}
keys = "/etc/oncegate/keys/keys.json"
{{- else }}
insecure_without_keys = true
{{- end }}
{{- if .Values.grpc.enabled }}
grpc_port = {{ .Values.grpc.port | int }}
grpc_reflection = {{ .Values.grpc.reflection }}
{{- end }}
{{- if eq .Values.ledger "kafka" }}
standby = true
{{- end }}
log_format = {{ .Values.logFormat | quote }}
shutdown_ms = {{ .Values.drain.shutdownMs | int }}
{{- range $name, $value := .Values.settings }}
{{ $name }} = {{ toJson $value }}
{{- end }}
{{- end }}

{{/* Names by which callers reach a pod: its address, the Service's, and what is given. */}}
{{- define "oncegate.hosts" -}}
{{- $name := include "oncegate.fullname" . }}
{{- $address := ternary "[$(POD_IP)]" "$(POD_IP)" (eq .Values.service.ipFamily "IPv6") }}
{{- $service := printf "%s.%s" $name .Release.Namespace }}
{{- concat (list $address $name $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service)) .Values.hosts | join "," }}
{{- end }}
