package interpreter

import (
	"encoding/json"
	"strings"
	"time"

	"wolffia/ops/code"
)

// An event is a line of the reply to /execute. Which fields are set depends on the type.
type event struct {
	Type      string
	Fields    map[string]any
	Timestamp bool // stdout and stderr have one
}

// AppendFrame implements [stream.Event].
func (e event) AppendFrame(b []byte, _ int64, at time.Time) ([]byte, error) {
	fields := map[string]any{"type": e.Type}
	for k, v := range e.Fields {
		fields[k] = v
	}
	if e.Timestamp {
		fields["timestamp"] = at.UTC().Format(time.RFC3339Nano)
	}
	text, err := json.Marshal(fields)
	return append(append(b, text...), '\n'), err
}

// forms are the fields of a result by MIME type. Others are extra.
var forms = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
	"image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
	"application/json": "json", "application/javascript": "javascript", code.MIMEData: "data", code.MIMEChart: "chart",
}

// eventOf returns an event as E2B has it.
func eventOf(e *code.Event) event {
	switch e.Type {
	case code.Began:
		return event{Type: "number_of_executions", Fields: map[string]any{"execution_count": e.Count}}
	case code.Failed:
		return event{Type: "error", Fields: map[string]any{
			"name": e.Name, "value": e.Value, "traceback": traceback(e.Traceback),
		}}
	case code.Result:
		return event{Type: "result", Fields: resultOf(e)}
	}
	return event{Type: e.Type, Fields: map[string]any{"text": e.Text}, Timestamp: true}
}

func resultOf(e *code.Event) map[string]any {
	fields, extra := map[string]any{"is_main_result": e.Main}, map[string]any{}
	for mime, v := range e.Data {
		if form, is := forms[mime]; is {
			fields[form] = v
		} else {
			extra[mime] = v
		}
	}
	if text, is := fields["text"].(string); is {
		fields["text"] = unquoted(text)
	}
	if len(extra) > 0 {
		fields["extra"] = extra
	}
	return fields
}

// unquoted returns the text of a value as E2B has it: of a string without the quotes.
func unquoted(text string) string {
	for _, q := range []string{`'`, `"`} {
		if len(text) > 1 && strings.HasPrefix(text, q) && strings.HasSuffix(text, q) {
			return text[1 : len(text)-1]
		}
	}
	return text
}

// traceback returns the lines of one as a text.
func traceback(lines []string) string {
	var all []string
	for _, line := range lines {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	return strings.Join(all, "\n")
}
