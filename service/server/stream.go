package server

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"wolffia/internal/jsontext"
	"wolffia/ops/stream"
	"wolffia/service"
)

// A live reply is sent while the call goes on. Its error is the call's. It begins with the first event.
type live func(to *events) error

// An event is one of a reply of server-sent events: it has a name, and JSON as its data.
type event struct {
	name string
	data any
}

// AppendFrame implements [stream.Event].
func (e event) AppendFrame(b []byte, _ int64, _ time.Time) ([]byte, error) {
	text, err := json.Marshal(e.data)
	return fmt.Appendf(b, "event: %s\ndata: %s\n\n", e.name, text), err
}

// events are a reply of server-sent events.
type events = stream.Stream[event]

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
	n := jsontext.WholeRunes(all)
	o.rest = append([]byte(nil), all[n:]...)
	return len(b), o.flush(all[:n])
}

// flush sends b.
func (o *output) flush(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case utf8.Valid(b):
		return o.to.Send(event{o.name, outputEvent{Text: string(b)}})
	}
	return o.to.Send(event{o.name, outputEvent{Bytes: b}})
}

// sendOutput sends the output of a command as events, and then its result.
func sendOutput(to *events, run func(stdout, stderr *output) (result any, err error)) error {
	stdout, stderr := &output{to: to, name: "stdout"}, &output{to: to, name: "stderr"}
	result, err := run(stdout, stderr)
	_ = stdout.flush(stdout.rest) // the next event fails too
	_ = stderr.flush(stderr.rest)
	if err != nil {
		return err
	}
	return to.Send(event{"result", result})
}

func streamBash(ctx context.Context, i *service.Inside, r *bashRequest) (any, error) {
	cmd, err := r.asked()
	return live(func(to *events) error {
		return sendOutput(to, func(stdout, stderr *output) (any, error) {
			r, err := i.Bash(ctx, cmd, stdout, stderr)
			if err != nil {
				return nil, err
			}
			return endOf(r), nil
		})
	}), err
}
