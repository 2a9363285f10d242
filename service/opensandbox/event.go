package opensandbox

import (
	"encoding/json"
	"net/http"
	"time"

	"wolffia/ops"
	"wolffia/ops/stream"
)

// An event is a part of a streamed reply. The fields after Error are copies of others for
// clients that read those.
type event struct {
	Type          string `json:"type"`
	EID           int64  `json:"eid,omitempty"` // counts from 1; of commands that can be resumed
	Text          string `json:"text,omitempty"`
	Bytes         []byte `json:"bytes,omitempty"` // the exact bytes, where Text is not
	EOL           *bool  `json:"eol,omitempty"`   // false: no newline follows Text in the output
	ExecutionTime *int64 `json:"execution_time,omitempty"`
	Timestamp     int64  `json:"timestamp"` // ms since 1970

	ExecutionCount int            `json:"execution_count,omitempty"` // of a cell of code, in its context
	Results        map[string]any `json:"results,omitempty"`         // of a cell, by MIME type
	Error          *errorEvent    `json:"error,omitempty"`

	Data       string `json:"data,omitempty"`
	ExitCode   *int   `json:"exitCode,omitempty"`
	DurationMS *int64 `json:"durationMs,omitempty"`

	Wolffia *ops.Result `json:"wolffia,omitempty"` // of the last event of a command, all that is known of its end
}

type errorEvent struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

var pong = event{Type: "ping", Text: "pong"}

// AppendFrame implements [stream.Event]: JSON and an empty line.
func (e event) AppendFrame(b []byte, n int64, at time.Time) ([]byte, error) {
	e.EID, e.Timestamp = n, at.UnixMilli()
	text, err := json.Marshal(e)
	return append(append(b, text...), "\n\n"...), err
}

// newStream returns a stream of events without signs of life.
func (d *execd) newStream(w http.ResponseWriter) *stream.Stream[event] {
	return stream.New[event](w, d.opts.WriteLimit)
}
