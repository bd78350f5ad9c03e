{{/* The name of the release's objects; a server's or a job's name is appended to it. */}}
{{- define "valetkey.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels by which Services and policies find pods; they never change. */}}
{{- define "valetkey.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 48 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "valetkey.labels" -}}
{{ include "valetkey.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "valetkey.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The names of the servers that the release runs, as JSON. */}}
{{- define "valetkey.servers" -}}
{{- ternary (list "authorization" "resource") (list "authorization") .Values.resource.enabled | toJson -}}
{{- end -}}

{{/* Settings that both servers and the migration get: who they are, and what they write to. */}}
{{- define "valetkey.environment" -}}
- { name: TMPDIR, value: /tmp }
- { name: VALETKEY__AUTHORIZATION__URL, value: {{ .Values.authorization.url | quote }} }
- { name: VALETKEY__AUTHORIZATION__LISTEN, value: "0.0.0.0:8400" }
- { name: VALETKEY__AUTHORIZATION__TLS_PROXY, value: "true" }
- { name: VALETKEY__AUTHORIZATION__WORKERS, value: {{ .Values.authorization.workers | quote }} }
- { name: VALETKEY__AUTHORIZATION__KEYRING, value: /var/lib/valetkey/valetkey.keyring }
- { name: VALETKEY__RESOURCE__ENABLED, value: {{ .Values.resource.enabled | quote }} }
{{- if .Values.resource.url }}
- { name: VALETKEY__RESOURCE__URL, value: {{ .Values.resource.url | quote }} }
{{- end }}
- { name: VALETKEY__RESOURCE__LISTEN, value: "0.0.0.0:8401" }
- { name: VALETKEY__RESOURCE__TLS_PROXY, value: "true" }
- { name: VALETKEY__RESOURCE__WORKERS, value: {{ .Values.resource.workers | quote }} }
- { name: VALETKEY__RESOURCE__CREDENTIAL, value: /var/lib/valetkey/resource-server.credential }
- { name: VALETKEY__SERVING__DRAIN, value: {{ .Values.drain | quote }} }
{{- with .Values.trustedProxies }}
- { name: VALETKEY__AUTHORIZATION__TRUSTED_PROXIES, value: {{ join "," . | quote }} }
- { name: VALETKEY__RESOURCE__TRUSTED_PROXIES, value: {{ join "," . | quote }} }
{{- end }}
{{- end -}}

{{/* Secrets of the authorization server. */}}
{{- define "valetkey.authorizationSecrets" -}}
{{- with .Values.authorization.secret -}}
- name: VALETKEY__AUTHORIZATION__DATABASE
  valueFrom: { secretKeyRef: { name: {{ .name | quote }}, key: {{ .databaseKey | quote }} } }
- name: VALETKEY__AUTHORIZATION__KEYRING_TEXT
  valueFrom: { secretKeyRef: { name: {{ .name | quote }}, key: {{ .keyringKey | quote }} } }
{{- end -}}
{{- end -}}

{{/* The secret between the servers: both have it. */}}
{{- define "valetkey.credential" -}}
{{- with .Values.resource.secret -}}
- name: VALETKEY__RESOURCE__CREDENTIAL_TEXT
  valueFrom: { secretKeyRef: { name: {{ .name | quote }}, key: {{ .credentialKey | quote }} } }
{{- end -}}
{{- end -}}

{{/* The resource server's database. The authorization server never gets its URL, nor the other way. */}}
{{- define "valetkey.resourceDatabase" -}}
{{- with .Values.resource.secret -}}
- name: VALETKEY__RESOURCE__DATABASE
  valueFrom: { secretKeyRef: { name: {{ .name | quote }}, key: {{ .databaseKey | quote }} } }
{{- end -}}
{{- end -}}

{{/* What the "restricted" Pod Security Standard asks of a pod, and of a container. */}}
{{- define "valetkey.podSecurity" -}}
automountServiceAccountToken: false
serviceAccountName: {{ .Values.serviceAccountName }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "valetkey.containerSecurity" -}}
image: {{ include "valetkey.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end -}}

{{/* The two places that are written to. */}}
{{- define "valetkey.mounts" -}}
- { name: state, mountPath: /var/lib/valetkey }
- { name: tmp, mountPath: /tmp }
{{- end -}}

{{- define "valetkey.volumes" -}}
- name: state
  emptyDir: { sizeLimit: 64Mi }
- name: tmp
  emptyDir: { medium: Memory, sizeLimit: 64Mi }
{{- end -}}
