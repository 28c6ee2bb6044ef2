{{- define "monitor.labels" -}}
app.kubernetes.io/name: rebalance-monitor
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "monitor.image" -}}
{{- $suffix := ternary "" "-spark" (eq .Values.engine "embedded") -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "%s%s" .Chart.AppVersion $suffix) }}
{{- end }}

{{- define "monitor.secret" -}}
{{ .Values.secret | default .Release.Name }}
{{- end }}

{{/* monitor.yaml: what the chart knows, under what the values say. */}}
{{- define "monitor.config" -}}
{{- $spark := dict "embedded" (dict) "spark" (dict "spark.driver.memory" "2g") "spark-operator" (dict "spark.sql.shuffle.partitions" "4") -}}
{{- $known := dict "engine" (ternary "embedded" "spark" (eq .Values.engine "embedded")) -}}
{{- $_ := set $known "storage" (dict "path" "/data/monitor") -}}
{{- $_ := set $known "web" (dict "host" "0.0.0.0" "token_file" "/run/secrets/rebalance-monitor/token") -}}
{{- if ne .Values.engine "embedded" }}{{ $_ := set $known "spark" (get $spark .Values.engine) }}{{ end -}}
{{ toYaml (mergeOverwrite $known (deepCopy .Values.config)) }}
{{- end }}

{{/* The history of ten million records took 1.9 GB of JVM (with a heap of 1 GB) and 1.7 of Python. No limit of the CPU: it
would throttle a batch that has to catch up. Ephemeral storage: /tmp and what the container logs. */}}
{{- define "monitor.resources" -}}
{{- $embedded := dict "requests" (dict "cpu" "250m" "memory" "512Mi" "ephemeral-storage" "256Mi") "limits" (dict "memory" "3Gi" "ephemeral-storage" "2Gi") -}}
{{- $spark := dict "requests" (dict "cpu" "1" "memory" "3Gi" "ephemeral-storage" "1Gi") "limits" (dict "memory" "6Gi" "ephemeral-storage" "4Gi") -}}
{{ toYaml (.Values.resources | default (ternary $embedded $spark (eq .Values.engine "embedded"))) }}
{{- end }}

{{- define "monitor.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "monitor.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{/* The page is served once the topic is there, which a new cluster makes with its first consumer: an hour is given. A
process that cannot start ends by itself, and says why. Reading the history of a large topic takes minutes: the pod is alive
meanwhile, but not ready. */}}
{{- define "monitor.probes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: {{ . }}
  periodSeconds: 5
  failureThreshold: 720
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ . }}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ . }}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{- define "monitor.scrape" -}}
- port: http
  path: /metrics
  interval: {{ .Values.monitor.interval }}
  # The rules ask for this job, whatever the release is called.
  relabelings:
    - targetLabel: job
      replacement: rebalance-monitor
  authorization:
    type: Bearer
    credentials:
      name: {{ include "monitor.secret" . }}
      key: token
{{- end }}

{{/* The port of the page: what `config.web.port` says, or the default. */}}
{{- define "monitor.port" -}}
{{ dig "web" "port" 8377 .Values.config }}
{{- end }}
