{{/* The ledger's URL, and which files it names. Secrets stand in files, never in the URL. */}}

{{- define "oncegate.ledgerUrl" -}}
{{- if eq .Values.ledger "embedded" -}}
log:/data/ledger
{{- else if eq .Values.ledger "kafka" -}}
kafka://{{ join "," .Values.kafka.brokers }}/{{ .Values.kafka.prefix }}?{{ include "oncegate.ledgerOptions" . }}
{{- else -}}
{{ ternary "rediss" "redis" .Values.redis.tls }}://{{ .Values.redis.host }}:{{ .Values.redis.port | int }}/{{ .Values.redis.prefix }}?{{ include "oncegate.ledgerOptions" . }}
{{- end }}
{{- end }}

{{- define "oncegate.ledgerOptions" -}}
{{- $options := list }}
{{- if .Values.masterKey.existingSecret }}{{ $options = append $options "master_key=/etc/oncegate/master-key/key" }}{{ end }}
{{- if .Values.oldMasterKey.existingSecret }}{{ $options = append $options "old_master_key=/etc/oncegate/old-master-key/key" }}{{ end }}
{{- if .Values.bareKey }}{{ $options = append $options "bare_key=yes" }}{{ end }}
{{- if .Values.runs.sizeLimit }}{{ $options = append $options "runs=/runs/oncegate" }}{{ end }}
{{- if eq .Values.ledger "kafka" }}
{{- $kafka := .Values.kafka }}
{{- $options = append $options (printf "security_protocol=%s" $kafka.securityProtocol) }}
{{- if $kafka.saslMechanism }}
{{- $options = append $options (printf "sasl_mechanism=%s" $kafka.saslMechanism) }}
{{- $options = append $options (printf "sasl_username=%s" ($kafka.saslUsername | urlquery)) }}
{{- $options = append $options "sasl_password_file=/etc/oncegate/password/password" }}
{{- end }}
{{- else }}
{{- if .Values.redis.user }}{{ $options = append $options (printf "user=%s" (.Values.redis.user | urlquery)) }}{{ end }}
{{- if .Values.password.existingSecret }}{{ $options = append $options "password_file=/etc/oncegate/password/password" }}{{ end }}
{{- if not .Values.redis.witness.size }}{{ $options = append $options "no_witness=yes" }}{{ end }}
{{- end }}
{{- if .Values.tls.existingSecret }}
{{- if .Values.tls.ca }}{{ $options = append $options "ssl_cafile=/etc/oncegate/tls/ca.pem" }}{{ end }}
{{- if .Values.tls.certificate }}{{ $options = concat $options (list "ssl_certfile=/etc/oncegate/tls/certificate.pem" "ssl_keyfile=/etc/oncegate/tls/key.pem") }}{{ end }}
{{- end }}
{{- range $name, $value := get .Values .Values.ledger | dig "options" dict }}
{{- $options = append $options (printf "%s=%s" $name (toJson $value | trimAll "\"" | urlquery)) }}
{{- end }}
{{- join "&" $options }}
{{- end }}

{{/* Where the witness is; empty: beside the ledger, or there is none. */}}
{{- define "oncegate.witness" -}}
{{- if or (and (eq .Values.ledger "embedded") .Values.embedded.persistent .Values.embedded.witness.size) (and (eq .Values.ledger "redis") .Values.redis.witness.size) -}}
/witness/oncegate
{{- end }}
{{- end }}

{{/* Ports of brokers or of the server, for the policy of the network: a JSON list without repeats. */}}
{{- define "oncegate.ledgerPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.ledgerPorts }}{{ $ports = append $ports (. | int) }}{{ end }}
{{- if eq .Values.ledger "kafka" }}
{{- range .Values.kafka.brokers }}{{ $ports = append $ports (splitList ":" . | last | int) }}{{ end }}
{{- else if eq .Values.ledger "redis" }}
{{- $ports = append $ports (.Values.redis.port | int) }}
{{- end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{/* The volumes of the one pod: name, size, storageClass and mode of each. */}}
{{- define "oncegate.claims" -}}
{{- $claims := list }}
{{- $mode := ternary .Values.embedded.accessMode "ReadWriteOnce" (eq .Values.ledger "embedded") }}
{{- if and (eq .Values.ledger "embedded") .Values.embedded.persistent }}
{{- $claims = append $claims (dict "name" "data" "size" .Values.embedded.size "storageClass" .Values.embedded.storageClass "mode" $mode) }}
{{- end }}
{{- if include "oncegate.witness" . }}
{{- $witness := (get .Values .Values.ledger).witness }}
{{- $claims = append $claims (dict "name" "witness" "size" $witness.size "storageClass" $witness.storageClass "mode" $mode) }}
{{- end }}
{{- toYaml $claims }}
{{- end }}
