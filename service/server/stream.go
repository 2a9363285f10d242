package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"wolffia/runtime"
	"wolffia/service"
)

// A live reply is sent while the call goes on. Its error is the call's. It begins with the first event.
type live interface {
	send(s *events) error
}

// events are a reply of server-sent events. It is safe for concurrent use.
type events struct {
	w     http.ResponseWriter
	limit time.Duration // for the client to read each one

	mu    sync.Mutex
	begun bool  // the status is that of success
	n     int64 // bytes sent
	err   error // of the connection; nothing is sent after it
}

// send sends an event, which has a name and JSON as its data. The error says that the client
// does not read it.
func (s *events) send(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no")
	}
	control := http.NewResponseController(s.w)
	if s.err = control.SetWriteDeadline(time.Now().Add(s.limit)); s.err != nil {
		return s.err
	}
	n, err := s.w.Write([]byte("event: " + name + "\ndata: " + string(text) + "\n\n"))
	s.n += int64(n)
	if s.err = err; s.err == nil {
		s.err = control.Flush()
	}
	return s.err
}

// An output sends what is written to it as events. A rune that is cut off is sent with the
// rest of it.
type output struct {
	to   *events
	name string
	rest []byte
}

// outputEvent is the data of an event of output: text if it is UTF-8, else bytes.
type outputEvent struct {
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	all := append(o.rest, b...)
	n := wholeRunes(all)
	o.rest = append([]byte(nil), all[n:]...)
	return len(b), o.flush(all[:n])
}

// flush sends b.
func (o *output) flush(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case utf8.Valid(b):
		return o.to.send(o.name, outputEvent{Text: string(b)})
	}
	return o.to.send(o.name, outputEvent{Bytes: b})
}

// A bashStream is the reply to streamBash.
type bashStream struct {
	ctx context.Context // of the request
	in  *service.Inside
	cmd *runtime.Command
}

func (b *bashStream) send(s *events) error {
	stdout, stderr := &output{to: s, name: "stdout"}, &output{to: s, name: "stderr"}
	r, err := b.in.Bash(b.ctx, b.cmd, io.Writer(stdout), stderr)
	_ = stdout.flush(stdout.rest) // the next event fails too
	_ = stderr.flush(stderr.rest)
	if err != nil {
		return err
	}
	return s.send("result", endOf(r))
}

func (s *Server) streamBash(ctx context.Context, e *entry, r *bashRequest) (int, any, error) {
	i, err := s.in(ctx, e, &r.ownerRequest)
	if err != nil {
		return 0, nil, err
	}
	cmd, err := r.asked()
	return http.StatusOK, &bashStream{ctx, i, cmd}, err
}
