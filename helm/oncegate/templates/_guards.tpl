{{/* Refuses, in one line each, what would lose ids, and what would be left out in silence. */}}

{{- define "oncegate.guards" -}}
{{- include "oncegate.guardLoss" . }}
{{- include "oncegate.guardVolumes" . }}
{{- include "oncegate.guardLedger" . }}
{{- include "oncegate.guardConnection" . }}
{{- include "oncegate.guardService" . }}
{{- include "oncegate.guardMetrics" . }}
{{- end }}

{{- define "oncegate.guardLoss" -}}
{{- $v := .Values }}
{{- if not $v.acceptDataLoss }}
{{- if eq $v.ledger "embedded" }}
{{- if not $v.embedded.persistent }}{{ fail "embedded.persistent=false forgets every id with the pod, and what was written is written again: leave it true, or set acceptDataLoss=true" }}{{ end }}
{{- if eq $v.embedded.whenDeleted "Delete" }}{{ fail "embedded.whenDeleted=Delete removes the ledger with the release: leave it Retain, or set acceptDataLoss=true" }}{{ end }}
{{- end }}
{{- if and (eq $v.ledger "redis") (not $v.redis.witness.size) }}{{ fail "redis.witness.size is empty, so a server that lost ids is believed: give the witness a volume, or set acceptDataLoss=true" }}{{ end }}
{{- if eq $v.ledger "kafka" }}
{{- range $name := list "replication" "min_insync" }}
{{- if eq (dig $name 2 $v.kafka.options | int) 1 }}{{ fail (printf "kafka.options.%s=1 loses ids with one broker: leave it out, or set acceptDataLoss=true" $name) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $v.acceptOtherLedger }}
{{- $before := lookup "v1" "ConfigMap" .Release.Namespace (include "oncegate.fullname" .) }}
{{- $url := dig "metadata" "annotations" "oncegate/ledger" "" $before }}
{{- if and $url (ne $url (include "oncegate.ledgerName" .)) }}{{ fail (printf "this release's ledger is %s, and %s knows nothing of what was written: keep it, or set acceptOtherLedger=true" $url (include "oncegate.ledgerName" .)) }}{{ end }}
{{- end }}
{{- end }}

{{/* What tells one ledger from another; brokers and hosts may change their names. */}}
{{- define "oncegate.ledgerName" -}}
{{- if eq .Values.ledger "embedded" -}}embedded{{- else -}}{{ .Values.ledger }}/{{ (get .Values .Values.ledger).prefix }}{{- end -}}
{{- end }}

{{- define "oncegate.guardLedger" -}}
{{- $v := .Values }}
{{- if and $v.kafka.brokers (ne $v.ledger "kafka") }}{{ fail (printf "kafka.brokers are given and ledger=%s: set ledger=kafka, or leave them out" $v.ledger) }}{{ end }}
{{- if and $v.redis.host (ne $v.ledger "redis") }}{{ fail (printf "redis.host is given and ledger=%s: set ledger=redis, or leave it out" $v.ledger) }}{{ end }}
{{- if and (eq $v.ledger "kafka") (not $v.kafka.brokers) }}{{ fail "ledger=kafka needs kafka.brokers, a list of HOST:PORT" }}{{ end }}
{{- if and (eq $v.ledger "redis") (not $v.redis.host) }}{{ fail "ledger=redis needs redis.host" }}{{ end }}
{{- if eq $v.ledger "embedded" }}
{{- range $name := list "masterKey" "oldMasterKey" "password" "tls" }}
{{- if (get $v $name).existingSecret }}{{ fail (printf "%s.existingSecret is of a ledger on Kafka or Redis, and ledger=embedded: leave it out" $name) }}{{ end }}
{{- end }}
{{- if $v.bareKey }}{{ fail "bareKey is of a ledger on Kafka or Redis, and ledger=embedded: leave it out" }}{{ end }}
{{- if $v.runs.sizeLimit }}{{ fail "runs.sizeLimit is of a ledger on Kafka or Redis, and ledger=embedded: leave it out, ids that leave memory lie on the volume" }}{{ end }}
{{- else }}
{{- if not (or $v.masterKey.existingSecret $v.bareKey) }}{{ fail (printf "ledger=%s needs masterKey.existingSecret, a secret with 64 hexadecimal digits (openssl rand -hex 32), or bareKey=true" $v.ledger) }}{{ end }}
{{- if and $v.masterKey.existingSecret $v.bareKey }}{{ fail "masterKey.existingSecret and bareKey=true contradict each other: give one" }}{{ end }}
{{- if and $v.oldMasterKey.existingSecret (not $v.masterKey.existingSecret) }}{{ fail "oldMasterKey.existingSecret goes with masterKey.existingSecret, the new one" }}{{ end }}
{{- end }}
{{- if and $v.podDisruptionBudget.enabled (or (ne $v.ledger "kafka") (lt ($v.kafka.replicas | int) 2)) }}{{ fail "podDisruptionBudget.enabled with one pod would hold up each drain of its node: leave it false" }}{{ end }}
{{- end }}

{{- define "oncegate.guardConnection" -}}
{{- $v := .Values }}
{{- $kafka := $v.kafka }}
{{- if eq $v.ledger "kafka" }}
{{- $sasl := hasPrefix "SASL" $kafka.securityProtocol }}
{{- if ne $sasl (not (empty $kafka.saslMechanism)) }}{{ fail (printf "kafka.securityProtocol=%s and kafka.saslMechanism=%q do not go together" $kafka.securityProtocol $kafka.saslMechanism) }}{{ end }}
{{- if and $sasl (not (and $kafka.saslUsername $v.password.existingSecret)) }}{{ fail "SASL needs kafka.saslUsername and password.existingSecret" }}{{ end }}
{{- if and (not $sasl) (or $kafka.saslUsername $v.password.existingSecret) }}{{ fail (printf "kafka.saslUsername and password.existingSecret are of SASL, and kafka.securityProtocol=%s" $kafka.securityProtocol) }}{{ end }}
{{- end }}
{{- if and (eq $v.ledger "redis") $v.redis.user (not $v.password.existingSecret) }}{{ fail "redis.user needs password.existingSecret" }}{{ end }}
{{- $tls := or (and (eq $v.ledger "kafka") (hasSuffix "SSL" $kafka.securityProtocol)) (and (eq $v.ledger "redis") $v.redis.tls) }}
{{- if and $v.tls.existingSecret (not $tls) }}{{ fail "tls.existingSecret is given and the connection has no TLS: set kafka.securityProtocol or redis.tls" }}{{ end }}
{{- if ne (empty $v.tls.certificate) (empty $v.tls.privateKey) }}{{ fail "tls.certificate and tls.privateKey go together" }}{{ end }}
{{- end }}

{{- define "oncegate.guardService" -}}
{{- $v := .Values }}
{{- if and (not $v.keys.existingSecret) (not $v.insecureWithoutKeys) }}{{ fail "the Service is no loopback address: give keys.existingSecret, a secret with the file of `oncegate keys add`, or set insecureWithoutKeys=true and let whoever reaches it do everything" }}{{ end }}
{{- if and $v.keys.existingSecret $v.insecureWithoutKeys }}{{ fail "keys.existingSecret and insecureWithoutKeys=true contradict each other: give one" }}{{ end }}
{{- if and $v.tests.existingSecret (not $v.keys.existingSecret) }}{{ fail "tests.existingSecret holds a key, and there are none without keys.existingSecret" }}{{ end }}
{{- if and $v.image.digest $v.image.tag }}{{ fail "image.digest and image.tag contradict each other: give one" }}{{ end }}
{{- if and $v.grpc.enabled (eq ($v.grpc.port | int) 8080) }}{{ fail "grpc.port 8080 is the port of HTTP inside of the pod: take another" }}{{ end }}
{{- if and $v.grpc.enabled (eq ($v.grpc.port | int) 8081) }}{{ fail "grpc.port 8081 is the port of health inside of the pod: take another" }}{{ end }}
{{- if and $v.grpc.enabled (eq ($v.grpc.port | int) ($v.service.port | int)) }}{{ fail "grpc.port and service.port are the same: take another" }}{{ end }}
{{- $needed := addf $v.drain.preStopSeconds (divf $v.drain.shutdownMs 1000) }}
{{- if le (float64 $v.drain.terminationGracePeriodSeconds) $needed }}{{ fail (printf "drain.terminationGracePeriodSeconds=%v has to be more than preStopSeconds and shutdownMs together, %v s: what was begun would be cut off" (int $v.drain.terminationGracePeriodSeconds) $needed) }}{{ end }}
{{- end }}

{{- define "oncegate.guardMetrics" -}}
{{- $monitor := .Values.metrics.serviceMonitor }}
{{- if $monitor.enabled }}
{{- if not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor") }}{{ fail "metrics.serviceMonitor needs the kind ServiceMonitor (monitoring.coreos.com/v1): install Prometheus Operator first, or name it by --api-versions" }}{{ end }}
{{- if and .Values.keys.existingSecret (not $monitor.existingSecret) }}{{ fail "metrics.serviceMonitor.existingSecret is needed where there are keys: a secret with a key of role metrics" }}{{ end }}
{{- if and (not .Values.keys.existingSecret) $monitor.existingSecret }}{{ fail "metrics.serviceMonitor.existingSecret holds a key, and there are none without keys.existingSecret" }}{{ end }}
{{- else if $monitor.existingSecret }}{{ fail "metrics.serviceMonitor.existingSecret is given and metrics.serviceMonitor.enabled=false" }}
{{- end }}
{{- if and .Values.metrics.rules.enabled (not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PrometheusRule")) }}{{ fail "metrics.rules needs the kind PrometheusRule (monitoring.coreos.com/v1): install Prometheus Operator first, or name it by --api-versions" }}{{ end }}
{{- end }}

{{/* Kubernetes refuses it too, and says neither which volumes nor what to do. */}}
{{- define "oncegate.guardVolumes" -}}
{{- $name := include "oncegate.fullname" . }}
{{- $before := ternary dict (lookup "apps/v1" "StatefulSet" .Release.Namespace $name) (eq .Values.ledger "kafka") }}
{{- if $before }}
{{- $was := list }}
{{- range dig "spec" "volumeClaimTemplates" list $before }}
{{- $was = append $was (printf "%s %s %s %s" .metadata.name .spec.resources.requests.storage (first .spec.accessModes) (.spec.storageClassName | default "") | trim) }}
{{- end }}
{{- $is := list }}
{{- range include "oncegate.claims" . | fromYamlArray }}
{{- $is = append $is (printf "%s %s %s %s" .name .size .mode (.storageClass | default "") | trim) }}
{{- end }}
{{- if ne (join ", " $was) (join ", " $is) }}{{ fail (printf "the volumes of a StatefulSet cannot change, from (%s) to (%s): give the values back, or first kubectl delete statefulset %s, which keeps the volumes" (join ", " $was) (join ", " $is) $name) }}{{ end }}
{{- end }}
{{- end }}
