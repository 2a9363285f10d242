package opensandbox

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// An event is a part of a streamed reply. The fields after Error are copies of others for
// clients that read those.
type event struct {
	Type          string      `json:"type"`
	Text          string      `json:"text,omitempty"`
	Bytes         []byte      `json:"bytes,omitempty"` // the exact bytes, where Text is not
	EOL           *bool       `json:"eol,omitempty"`   // false: no newline follows Text in the output
	ExecutionTime *int64      `json:"execution_time,omitempty"`
	Timestamp     int64       `json:"timestamp"` // ms since 1970
	Error         *errorEvent `json:"error,omitempty"`

	Data       string `json:"data,omitempty"`
	ExitCode   *int   `json:"exitCode,omitempty"`
	DurationMS *int64 `json:"durationMs,omitempty"`
}

type errorEvent struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// A stream sends events. Nothing is sent before the first one, so that a failure before it
// can have a status of its own. It is safe for concurrent use.
type stream struct {
	h       *Handler
	w       http.ResponseWriter
	control *http.ResponseController

	mu    sync.Mutex
	begun bool
	err   error // of the connection; nothing is sent after it
}

func (h *Handler) newStream(w http.ResponseWriter) *stream {
	return &stream{h: h, w: w, control: http.NewResponseController(w)}
}

// send sends events, each as JSON and an empty line. The client has a limited time to read
// them; the error says that it does not.
func (s *stream) send(events ...event) error {
	var frames []byte
	now := time.Now().UnixMilli()
	for _, e := range events {
		e.Timestamp = now
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		frames = append(append(frames, text...), "\n\n"...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if !s.begun {
		s.begun = true
		header := s.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	s.h.patience(s.w)
	if _, s.err = s.w.Write(frames); s.err == nil {
		s.err = s.control.Flush()
	}
	return s.err
}
