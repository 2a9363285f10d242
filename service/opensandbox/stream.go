package opensandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"wolffia/ops"
)

// An event is a part of a streamed reply. The fields after Error are copies of others for
// clients that read those.
type event struct {
	Type          string      `json:"type"`
	EID           int64       `json:"eid,omitempty"` // counts from 1; of commands that can be resumed
	Text          string      `json:"text,omitempty"`
	Bytes         []byte      `json:"bytes,omitempty"` // the exact bytes, where Text is not
	EOL           *bool       `json:"eol,omitempty"`   // false: no newline follows Text in the output
	ExecutionTime *int64      `json:"execution_time,omitempty"`
	Timestamp     int64       `json:"timestamp"` // ms since 1970
	Error         *errorEvent `json:"error,omitempty"`

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

// A sender takes events.
type sender interface {
	send(events ...event) error
}

// The pauses of a stream.
const (
	// helloPause is how long the first events of a command wait for its output, or its end,
	// to be sent with it: most commands end before that, and each message costs server and
	// client more than such a command.
	helloPause = 5 * time.Millisecond
	// pingPause is how often a client gets a sign of life.
	pingPause = 3 * time.Second
)

// A stream sends events. Nothing is sent before the first one, so that a failure before it
// can have a status of its own. It is safe for concurrent use. The caller ends it by last or
// over, after which nothing writes to the reply.
type stream struct {
	h       *Handler
	w       http.ResponseWriter
	control *http.ResponseController
	timer   *time.Timer // sends hello, and then pings; nil: neither

	running, greeted atomic.Bool // the command; hello is set

	mu    sync.Mutex
	hello []event // what is sent before all else; guarded by mu
	begun bool    // guarded by mu
	err   error   // of the connection, or that the reply is over; nothing is sent after it; guarded by mu
}

// errOver is the error of sending after the last event.
var errOver = errors.New("the reply is over")

// newStream returns a stream. If gone is not nil, the stream sends signs of life once it has
// begun or greeted, and calls gone if the client does not read them.
func (h *Handler) newStream(w http.ResponseWriter, gone func()) *stream {
	s := &stream{h: h, w: w, control: http.NewResponseController(w)}
	if gone != nil {
		s.timer = time.AfterFunc(time.Hour, func() {
			if s.beat() != nil {
				gone()
			}
		})
		s.timer.Stop()
	}
	return s
}

// greet sets the events that are sent before all others: with them, or when the command has
// run for helloPause.
func (s *stream) greet(hello ...event) {
	s.mu.Lock()
	s.hello = hello
	s.mu.Unlock()
	if s.greeted.Store(true); s.running.Load() {
		s.timer.Reset(helloPause)
	}
}

// run notes that the command runs. It does not block.
func (s *stream) run() {
	if s.running.Store(true); s.greeted.Load() {
		s.timer.Reset(helloPause)
	}
}

// beat sends what greet has set or, if that was sent, a sign of life.
func (s *stream) beat() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var life []event
	if s.begun {
		life = []event{pong}
	}
	err := s.flush(life)
	if err == nil {
		s.timer.Reset(pingPause)
	}
	return err
}

// send sends events, each as JSON and an empty line. The client has a limited time to read
// them; the error says that it does not.
func (s *stream) send(events ...event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush(events)
}

// flush is send for a caller that holds mu.
func (s *stream) flush(events []event) error {
	if err := s.write(events); err != nil {
		return err
	}
	s.err = s.control.Flush()
	return s.err
}

// last writes the last event. The server sends it with the end of the reply, when the
// handler returns.
func (s *stream) last(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.write([]event{e}) // the client has gone
	s.end()
}

// over ends the stream without an event.
func (s *stream) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// leave ends the stream and reports true if nothing was sent: the reply can have another status.
func (s *stream) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return false
	}
	s.end()
	return true
}

// end is over for a caller that holds mu.
func (s *stream) end() {
	if s.err == nil {
		s.err = errOver
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// write writes events, after those of greet, to the server's buffer. The caller holds mu.
func (s *stream) write(events []event) error {
	if !s.begun {
		events = append(s.hello, events...)
	}
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
	return s.put(frames)
}

// put writes frames to the server's buffer. The caller holds mu.
func (s *stream) put(frames []byte) error {
	if s.err != nil {
		return s.err
	}
	if !s.begun {
		s.begun = true
		streamHeader(s.w)
		if s.timer != nil {
			s.timer.Reset(pingPause)
		}
	}
	s.h.patience(s.w)
	_, s.err = s.w.Write(frames)
	return s.err
}

// pass sends events that are frames already.
func (s *stream) pass(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.put(frames); err != nil {
		return err
	}
	s.err = s.control.Flush()
	return s.err
}

// streamHeader begins a reply that is sent in parts.
func streamHeader(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}
