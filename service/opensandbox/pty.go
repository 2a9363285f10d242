package opensandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"wolffia/ops"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// A ptyRequest is the body of POST /pty.
type ptyRequest struct {
	Cwd     string `json:"cwd"`
	Command string `json:"command"` // empty: an interactive shell
}

// createPTY serves POST /pty.
func (d *execd) createPTY(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	var q ptyRequest
	if err := d.decode(w, r, commandBody, &q); err != nil {
		return err
	}
	name, err := in.CreateTerminal(r.Context(), q.Cwd, q.Command)
	if err != nil {
		return commandFault(err)
	}
	d.opts.JSON(w, http.StatusCreated, sessionReply{name})
	return nil
}

// A ptyReply describes a PTY.
type ptyReply struct {
	ID      string `json:"session_id"`
	Running bool   `json:"running"`
	Offset  uint64 `json:"output_offset"` // behind the last byte of its output
}

// aboutPTY serves GET /pty/{session}.
func (d *execd) aboutPTY(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	s, err := in.Session(r.Context(), r.PathValue("session"))
	if err != nil {
		return commandFault(err)
	}
	reply := ptyReply{ID: s.Name}
	if s.Terminal != nil {
		reply.Running, reply.Offset = true, s.Terminal.End
	}
	d.opts.JSON(w, http.StatusOK, reply)
	return nil
}

// attachPTY serves GET /pty/{session}/ws. All that can be refused is refused before the
// connection changes to WebSocket.
func (d *execd) attachPTY(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	since, err := offset(r, "since", "an offset in bytes")
	if err != nil {
		return err
	}
	q, name := r.URL.Query(), r.PathValue("session")
	switch {
	case q.Get("pty") == "0":
		return unsupported("pty=0: a PTY here always is a terminal: for separate streams use POST /command, or a session")
	case !stream.IsHandshake(r):
		return &fault{http.StatusUpgradeRequired, "INVALID_REQUEST", "the request must ask for WebSocket (RFC 6455, version 13)"}
	}
	t, err := in.AttachTerminal(r.Context(), name, since, q.Get("takeover") == "1")
	switch {
	case runtime.Class(err) == runtime.ErrConflict:
		return &fault{http.StatusConflict, alreadyConnected, err.Error()}
	case err != nil:
		return commandFault(err)
	}
	defer t.Close()
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil // it has answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(maxInput)
	(&pty{writeLimit: d.opts.WriteLimit, ws: ws, t: t, name: name, typed: stream.NewInput(maxInput)}).serve(r.Context())
	return nil
}

// The codes of errors of a PTY, and the one of a connection that is closed since another client
// has taken over.
const (
	alreadyConnected = "ALREADY_CONNECTED"
	takenOver        = "TAKEN_OVER"
	sessionGone      = "SESSION_GONE"
	invalidFrame     = "INVALID_FRAME"
	inputFailed      = "STDIN_WRITE_FAILED"

	closeTakenOver websocket.StatusCode = 4001
)

// The first bytes of binary messages.
const (
	binaryInput  = 0
	binaryOutput = 1
	binaryReplay = 3 // and 8 bytes: the offset of the first byte, big-endian
)

// The bounds of a PTY's connection.
const (
	maxInput  = 1 << 20 // bytes of a message of the client
	maxReplay = 1 << 20 // bytes of output that are shown again in one message
	ptyChunk  = 32 << 10
)

// A pty is a client's connection to a terminal.
type pty struct {
	writeLimit time.Duration // of a message
	ws         *websocket.Conn
	t          runtime.Terminal
	name       string
	typed      *stream.Input
}

// A ptyFrame is a text message of either side.
type ptyFrame struct {
	Type   string `json:"type"`
	Data   string `json:"data,omitempty"`
	Cols   uint16 `json:"cols,omitempty"`
	Rows   uint16 `json:"rows,omitempty"`
	Signal string `json:"signal,omitempty"`

	Session  string `json:"session_id,omitempty"`
	Mode     string `json:"mode,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"`
}

// serve serves the connection until the client goes, another one takes over, or the shell ends.
func (p *pty) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.t.Close() }) // ends what reads from the terminal
	defer stop()
	go func() { // ends with the connection
		defer cancel()
		p.read(ctx)
	}()
	go p.input(ctx) // ends with ctx, which closes the terminal
	go func() {     // ends with ctx
		defer cancel()
		p.typed.Watch(ctx, p.ws.Ping)
	}()
	if p.replay(ctx) != nil || p.send(ctx, &ptyFrame{Type: "connected", Session: p.name, Mode: "pty"}) != nil || p.show(ctx) != nil {
		return
	}
	exit, err := p.t.Wait(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil || exit.Session != nil && exit.Session.Ended:
		_ = p.send(ctx, &ptyFrame{Type: "error", Code: sessionGone, Error: "the session has ended"})
		_ = p.ws.Close(websocket.StatusNormalClosure, sessionGone)
	case p.t.Detached():
		_ = p.ws.Close(closeTakenOver, takenOver)
	default:
		_ = p.send(ctx, &ptyFrame{Type: "exit", ExitCode: &exit.ExitCode})
		_ = p.ws.Close(websocket.StatusNormalClosure, "process exited")
	}
}

// write sends a message, which the client has a limited time to take.
func (p *pty) write(ctx context.Context, kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.writeLimit)
	defer cancel()
	return p.ws.Write(ctx, kind, b)
}

// send sends a text message.
func (p *pty) send(ctx context.Context, f *ptyFrame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return p.write(ctx, websocket.MessageText, text)
}

// replay sends the output that is shown again. What the sandbox says of its amount is bounded.
func (p *pty) replay(ctx context.Context) error {
	n := min(p.t.End()-p.t.Start(), maxReplay)
	if n == 0 {
		return nil
	}
	message := make([]byte, 9+n)
	message[0] = binaryReplay
	binary.BigEndian.PutUint64(message[1:], p.t.Start())
	read, err := io.ReadFull(p.t.Stdout(), message[9:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return p.write(ctx, websocket.MessageBinary, message[:9+read])
}

// show sends output until it ends.
func (p *pty) show(ctx context.Context) error {
	message := make([]byte, 1+ptyChunk)
	message[0] = binaryOutput
	for {
		n, err := p.t.Stdout().Read(message[1:])
		if n > 0 {
			if err := p.write(ctx, websocket.MessageBinary, message[:1+n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // Wait says how it has ended
		}
	}
}

// read does what the client's messages ask for.
func (p *pty) read(ctx context.Context) {
	for {
		kind, b, err := p.ws.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if len(b) > 0 && b[0] == binaryInput {
				err = p.typed.Put(ctx, b[1:])
			}
		} else {
			err = p.heed(ctx, b)
		}
		if err != nil {
			return
		}
	}
}

// input types on the terminal what comes. When it takes no more, the rest is dropped: show says how it ends.
func (p *pty) input(ctx context.Context) {
	for failed := false; ; {
		b, err := p.typed.Take(ctx)
		if err != nil {
			return
		}
		if failed {
			continue
		}
		if _, err := p.t.Stdin().Write(b); err != nil {
			failed = true
			_ = p.send(ctx, &ptyFrame{Type: "error", Code: inputFailed, Error: "the terminal takes no input any more"})
		}
	}
}

// heed does what a text message asks for. The error is of the connection.
func (p *pty) heed(ctx context.Context, b []byte) error {
	var f ptyFrame
	if json.Unmarshal(b, &f) != nil {
		return p.send(ctx, &ptyFrame{Type: "error", Code: invalidFrame, Error: "the message is not JSON of the right form"})
	}
	switch f.Type {
	case "stdin":
		return p.typed.Put(ctx, []byte(f.Data))
	case "resize":
		if f.Rows > 0 && f.Cols > 0 {
			_ = p.t.Resize(f.Rows, f.Cols) // the shell has ended: show says so
		}
		return nil
	case "signal":
		if sig := ops.Signal(f.Signal); sig != 0 {
			_ = p.t.Signal(sig)
			return nil
		}
		return p.send(ctx, &ptyFrame{Type: "error", Code: invalidFrame, Error: fmt.Sprintf("unknown signal %.40q", f.Signal)})
	case "ping":
		return p.send(ctx, &ptyFrame{Type: "pong"})
	}
	return p.send(ctx, &ptyFrame{Type: "error", Code: invalidFrame, Error: fmt.Sprintf("unknown type %.40q", f.Type)})
}
