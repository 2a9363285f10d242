package console

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/coder/websocket"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// The bounds of a terminal's connection.
const (
	maxTyped    = 64 << 10 // bytes of a message of the client
	maxWaiting  = 1 << 20  // bytes that were typed and that the terminal has not taken
	defaultTail = 64 << 10 // bytes of earlier output that are shown
	maxTail     = 1 << 20
	chunk       = 32 << 10

	closeFailed websocket.StatusCode = 4000
)

func sessions(c *call, in *service.Inside) (any, error) {
	all, err := in.Sessions(c.Context())
	return map[string]any{"sessions": append([]*runtime.Session{}, all...)}, err
}

type sessionRequest struct {
	Name string `json:"name"`
	Cwd  string `json:"cwd"`
}

func startSession(h *Handler, c *call, q *sessionRequest) (any, error) {
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	name, err := in.CreateSession(c.Context(), q.Name, q.Cwd)
	return map[string]string{"session": name}, err
}

func endSession(h *Handler, c *call, _ *nothing) (any, error) {
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	return nothing{}, in.DestroySession(c.Context(), c.PathValue("name"))
}

// attachRequest returns how a client attaches: from an offset on, or with the end of what was shown.
func (c *call) attachRequest(s *runtime.Session) (*runtime.AttachRequest, error) {
	q, req := c.URL.Query(), &runtime.AttachRequest{}
	for name, to := range map[string]*uint16{"rows": &req.Rows, "cols": &req.Cols} {
		n, err := c.number(name, 0, 1, 1000)
		if err != nil {
			return nil, err
		}
		*to = uint16(n) // at most 1000
	}
	tail, err := c.number("tail", defaultTail, 0, maxTail)
	if err != nil {
		return nil, err
	}
	switch {
	case q.Get("offset") != "":
		if req.Offset, err = strconv.ParseUint(q.Get("offset"), 10, 64); err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "offset %.40q: it must be a number of bytes", q.Get("offset"))
		}
	case s.Terminal != nil:
		req.Offset = s.Terminal.End - min(s.Terminal.End, uint64(tail)) // not negative
	}
	return req, nil
}

// terminal attaches a client to the terminal of a session, beside others. What fails is said in a
// message: a page does not learn the status of a handshake.
func (h *Handler) terminal(c *call) (any, error) {
	if !stream.IsHandshake(c.Request) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the request must ask for WebSocket (RFC 6455, version 13)")
	}
	ws, err := websocket.Accept(c.w, c.Request, &websocket.AcceptOptions{Subprotocols: []string{protocol}})
	if err != nil {
		return nil, errAnswered // by Accept
	}
	defer ws.CloseNow()
	ws.SetReadLimit(maxTyped)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	v := &viewer{ws: ws, typed: stream.NewInput(maxWaiting)}
	if err := v.attach(ctx, h, c); err != nil {
		_, f := failureOf(err)
		_ = v.say(ctx, f)
		_ = ws.Close(closeFailed, f.Error.Code)
		return nil, errAnswered
	}
	defer v.t.Close()
	v.serve(ctx, cancel)
	return nil, errAnswered
}

// A viewer is a client's connection to a terminal.
type viewer struct {
	ws    *websocket.Conn
	t     runtime.Terminal
	typed *stream.Input
}

func (v *viewer) attach(ctx context.Context, h *Handler, c *call) error {
	in, err := h.opts.Service.Inside(ctx, c.caller, c.id)
	if err != nil {
		return err
	}
	s, err := in.Session(ctx, c.PathValue("name"))
	if err != nil {
		return err
	}
	req, err := c.attachRequest(s)
	if err != nil {
		return err
	}
	v.t, err = in.View(ctx, s.Name, req)
	return err
}

// serve serves the connection until the client leaves or the shell ends.
func (v *viewer) serve(ctx context.Context, cancel context.CancelFunc) {
	defer context.AfterFunc(ctx, func() { _ = v.t.Close() })() // ends what reads from the terminal
	go func() {                                                // ends with the connection
		defer cancel()
		v.read(ctx)
	}()
	go v.input(ctx) // ends with ctx
	go func() {     // ends with ctx
		defer cancel()
		v.typed.Watch(ctx, v.ws.Ping)
	}()
	if v.say(ctx, map[string]uint64{"start": v.t.Start(), "end": v.t.End()}) != nil || v.show(ctx) != nil || ctx.Err() != nil {
		return
	}
	exit, err := v.t.Wait(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		_, f := failureOf(err)
		_ = v.say(ctx, f)
		_ = v.ws.Close(closeFailed, f.Error.Code)
	default:
		_ = v.say(ctx, map[string]any{"exit": map[string]any{"code": exit.ExitCode, "detached": v.t.Detached()}})
		_ = v.ws.Close(websocket.StatusNormalClosure, "")
	}
}

// write sends a message, which the client has a limited time to take.
func (v *viewer) write(ctx context.Context, kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	return v.ws.Write(ctx, kind, b)
}

// say sends a text message.
func (v *viewer) say(ctx context.Context, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return v.write(ctx, websocket.MessageText, text)
}

// show sends output until it ends.
func (v *viewer) show(ctx context.Context) error {
	b := make([]byte, chunk)
	for {
		n, err := v.t.Stdout().Read(b)
		if n > 0 {
			if err := v.write(ctx, websocket.MessageBinary, b[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // Wait says how it has ended
		}
	}
}

// read takes what the client types, and the size of its screen.
func (v *viewer) read(ctx context.Context) {
	for {
		kind, b, err := v.ws.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if v.typed.Put(ctx, b) != nil {
				return
			}
			continue
		}
		var size struct{ Rows, Cols uint16 }
		if json.Unmarshal(b, &size) == nil && size.Rows > 0 && size.Cols > 0 {
			_ = v.t.Resize(size.Rows, size.Cols) // the shell has ended: show says so
		}
	}
}

// input types on the terminal what comes, as long as it takes something.
func (v *viewer) input(ctx context.Context) {
	for {
		b, err := v.typed.Take(ctx)
		if err != nil {
			return
		}
		_, _ = v.t.Stdin().Write(b) // the shell has ended: show says so
	}
}
