{{/* Names and labels. A selector never changes: name, instance, component. */}}

{{- define "oncegate.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "oncegate.fullname" -}}
{{- $name := include "oncegate.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "oncegate.selector" -}}
app.kubernetes.io/name: {{ include "oncegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "oncegate.labels" -}}
{{ include "oncegate.selector" . }}
{{ include "oncegate.common" . }}
{{- end }}

{{/* Labels of everything; of what is no gateway behind a name and component of its own. */}}
{{- define "oncegate.common" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: oncegate
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "oncegate.testLabels" -}}
app.kubernetes.io/name: {{ include "oncegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end }}

{{- define "oncegate.image" -}}
{{- $image := .Values.image }}
{{- $name := $image.repository }}
{{- if $image.registry }}{{ $name = printf "%s/%s" $image.registry $name }}{{ end }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name ($image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- define "oncegate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "oncegate.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* As a container without rights runs under the restricted policy, with a root that nobody writes. */}}
{{- define "oncegate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "oncegate.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ . | int }}
runAsGroup: {{ . | int }}
fsGroup: {{ . | int }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}
