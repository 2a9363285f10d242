package envd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"wolffia/runtime"
	"wolffia/service/e2b/fault"
)

// The messages of process.Process. Of those with pointers one is set.
type (
	processConfig struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args,omitempty"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd,omitempty"`
	}
	ptySize struct {
		Size struct {
			Cols number `json:"cols"`
			Rows number `json:"rows"`
		} `json:"size"`
	}
	startRequest struct {
		Process processConfig `json:"process"`
		PTY     *ptySize      `json:"pty"`
		Tag     *string       `json:"tag"`
		Stdin   *bool         `json:"stdin"`
	}
	processReply struct {
		Event processEvent `json:"event"`
	}
	processEvent struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		Keepalive *empty      `json:"keepalive,omitempty"`
	}
	startEvent struct {
		PID number `json:"pid"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		PTY    []byte `json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
	selector struct {
		PID *number `json:"pid"`
		Tag *string `json:"tag"`
	}
	ofProcess struct {
		Process selector `json:"process"`
	}
	processInput struct {
		Stdin []byte `json:"stdin"`
		PTY   []byte `json:"pty"`
	}
	inputRequest struct {
		ofProcess
		Input processInput `json:"input"`
	}
	streamInputRequest struct {
		Start *ofProcess `json:"start"`
		Data  *struct {
			Input processInput `json:"input"`
		} `json:"data"`
	}
	signalRequest struct {
		ofProcess
		Signal symbol `json:"signal"`
	}
	updateRequest struct {
		ofProcess
		PTY *ptySize `json:"pty"`
	}
	processInfo struct {
		Config processConfig `json:"config"`
		PID    number        `json:"pid"`
		Tag    *string       `json:"tag,omitempty"`
	}
	listReply struct {
		Processes []processInfo `json:"processes"`
	}
)

// killLimit is how long a client waits for the end of a process that it kills: output that another
// client does not read may delay that.
const killLimit = 2 * time.Second

// errInput is wrapped by the errors for input that a process does not take.
var errInput = errors.New("input")

// asStart returns the error of a program that could not be started.
func asStart(err error) (*runtime.StartError, bool) { return errors.AsType[*runtime.StartError](err) }

// processes serves process.Process.
func (h *Handler) processes() {
	const p = "/process.Process/"
	streaming(h, p+"Start", h.serveStart)
	streaming(h, p+"Connect", h.serveConnect)
	unary(h, p+"List", func(ctx context.Context, c *call, _ *empty, _ http.Header) (*listReply, error) {
		err := h.adopt(ctx, c)
		return c.room.list(), err
	})
	unary(h, p+"Update", func(ctx context.Context, c *call, q *updateRequest, _ http.Header) (*empty, error) {
		r, err := h.find(ctx, c, &q.Process, false)
		if err != nil || q.PTY == nil {
			return &empty{}, err
		}
		if !r.PTY {
			return nil, internal("tty not assigned to process")
		}
		return &empty{}, r.Resize(clamp(q.PTY.Size.Rows), clamp(q.PTY.Size.Cols))
	})
	unary(h, p+"SendInput", func(ctx context.Context, c *call, q *inputRequest, _ http.Header) (*empty, error) {
		r, err := h.find(ctx, c, &q.Process, false)
		if err != nil {
			return nil, err
		}
		return &empty{}, r.input(ctx, &q.Input)
	})
	unary(h, p+"CloseStdin", func(ctx context.Context, c *call, q *ofProcess, _ http.Header) (*empty, error) {
		r, err := h.find(ctx, c, &q.Process, false)
		if err != nil {
			return nil, err
		}
		if r.PTY {
			why := errors.New("cannot close stdin for PTY process: send Ctrl+D (0x04) instead")
			return nil, connect.NewError(connect.CodeUnknown, why)
		}
		return &empty{}, r.write(ctx, nil, true)
	})
	unary(h, p+"SendSignal", func(ctx context.Context, c *call, q *signalRequest, _ http.Header) (*empty, error) {
		r, err := h.find(ctx, c, &q.Process, false)
		if err != nil {
			return nil, err
		}
		sig := signals[q.Signal]
		if sig == 0 {
			why := fmt.Sprintf("signal %.40q: only SIGNAL_SIGTERM and SIGNAL_SIGKILL can be sent", q.Signal)
			return nil, fault.New(http.StatusNotImplemented, why)
		}
		if err := r.Signal(sig); err != nil || sig != syscall.SIGKILL {
			return &empty{}, err
		}
		limit := time.NewTimer(killLimit)
		defer limit.Stop()
		select { // a client may look whether it runs
		case <-r.done:
		case <-limit.C:
		case <-ctx.Done():
		}
		return &empty{}, nil
	})
	h.mux.Handle("POST "+p+"StreamInput", connect.NewClientStreamHandler(p+"StreamInput", h.streamInput, handlerOptions...))
}

// serveStart serves Start.
func (h *Handler) serveStart(
	ctx context.Context, c *call, q *startRequest, header http.Header, send func(*processReply) error,
) error {
	r, to, leave, err := h.start(ctx, c, q, header)
	if err != nil {
		return err
	}
	defer leave()
	return r.follow(ctx, c.room, to, header, send)
}

// serveConnect serves Connect, which gives what comes from now on.
func (h *Handler) serveConnect(
	ctx context.Context, c *call, q *ofProcess, header http.Header, send func(*processReply) error,
) error {
	r, err := h.find(ctx, c, &q.Process, true)
	if err != nil {
		return err
	}
	to, leave := r.join()
	defer leave()
	return r.follow(ctx, c.room, to, header, send)
}

// streamInput serves StreamInput: the first message names a process.
func (h *Handler) streamInput(
	ctx context.Context, from *connect.ClientStream[streamInputRequest],
) (*connect.Response[empty], error) {
	var r *running
	err := error(nil)
	for err == nil && from.Receive() {
		switch q := from.Msg(); {
		case q.Start != nil:
			r, err = h.find(ctx, callOf(ctx), &q.Start.Process, false)
		case q.Data != nil && r == nil:
			err = fault.Invalid("data before start")
		case q.Data != nil:
			err = r.input(ctx, &q.Data.Input)
		}
	}
	if err = errors.Join(err, from.Err()); err != nil {
		return nil, h.rpcError(ctx, err)
	}
	return connect.NewResponse(&empty{}), nil
}

func internal(text string) error { return connect.NewError(connect.CodeInternal, errors.New(text)) }

// input types what a message has.
func (r *running) input(ctx context.Context, in *processInput) (err error) {
	switch {
	case in.PTY != nil && !r.PTY:
		return internal("tty not assigned to process: input should be written to the stdin, not the tty")
	case in.Stdin != nil && r.PTY:
		return internal("tty assigned to process: input should be written to the pty, not the stdin")
	case in.PTY != nil:
		err = r.write(ctx, in.PTY, false)
	case in.Stdin != nil:
		err = r.write(ctx, in.Stdin, false)
	default:
		return fault.New(http.StatusNotImplemented, "the message has neither stdin nor pty")
	}
	if errors.Is(err, errInput) {
		return connect.NewError(connect.CodeInternal, err)
	}
	return err
}

// find returns a process; with ended also one that has ended not long ago.
func (r *room) find(s *selector, ended bool) (*running, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *running
	switch {
	case s.PID != nil:
		found = r.processes[*s.PID]
	case s.Tag != nil:
		for _, p := range r.processes {
			if p.Tag != nil && *p.Tag == *s.Tag && (found == nil || found.over()) {
				found = p
			}
		}
	default:
		return nil, fault.Invalid("the request names no process")
	}
	if found == nil || !ended && found.over() {
		return nil, fault.New(http.StatusNotFound, "no such process runs")
	}
	return found, nil
}

// over reports whether the process has ended.
func (r *running) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// list returns the processes that run, by their numbers.
func (r *room) list() *listReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	reply := &listReply{Processes: []processInfo{}}
	for _, p := range r.processes {
		if !p.over() {
			reply.Processes = append(reply.Processes, processInfo{p.Config, p.pid, p.Tag})
		}
	}
	slices.SortFunc(reply.Processes, func(a, b processInfo) int { return int(a.PID) - int(b.PID) })
	return reply
}
