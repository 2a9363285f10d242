{{- define "wolffia.sandboxes" -}}{{ .Values.sandboxes.namespace | default .Release.Namespace }}{{- end }}
{{- define "wolffia.of" -}}
app.kubernetes.io/name: wolffia
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "wolffia.settings" -}}
guest={{ .Values.guestImage }},namespace={{ include "wolffia.sandboxes" . }}{{ with .Values.sandboxes.runtimeClass }},runtime-class={{ . }}{{ end }}
{{- end }}
