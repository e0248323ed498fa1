{{/* The pod, the same below a StatefulSet and a Deployment. */}}

{{- define "oncegate.pod" -}}
metadata:
  labels:
    {{- include "oncegate.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/config: {{ include "oncegate.settings" . | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "oncegate.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.drain.terminationGracePeriodSeconds | int }}
  securityContext: {{- include "oncegate.podSecurity" . | nindent 4 }}
  {{- with include "oncegate.placement" . | trim }}{{ . | nindent 2 }}{{ end }}
  initContainers:
    # The image's root is read-only, and compiled loops are looked for where they can be written: they are copied there.
    - name: kernels
      image: {{ include "oncegate.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [cp, -r, --preserve=timestamps, /var/cache/oncegate/., /kernels]
      securityContext: {{- include "oncegate.containerSecurity" . | nindent 8 }}
      resources:
        requests: {cpu: 10m, memory: 32Mi, ephemeral-storage: 64Mi}
        limits: {memory: 64Mi, ephemeral-storage: 64Mi}
      volumeMounts:
        - {name: kernels, mountPath: /kernels}
  containers:
    - {{- include "oncegate.container" . | nindent 6 }}
    {{- with .Values.extraContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes: {{- include "oncegate.volumes" . | nindent 4 }}
{{- end }}

{{- define "oncegate.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.affinity }}
affinity: {{- toYaml .Values.affinity | nindent 2 }}
{{- else if eq .Values.ledger "kafka" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "oncegate.selector" . | nindent 14 }}
{{- end }}
{{- if .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else if eq .Values.ledger "kafka" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "oncegate.selector" . | nindent 8 }}
{{- end }}
{{- end }}
