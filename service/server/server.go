package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/meter"
	"wolffia/service/registry"
)

// Options are a server's options. nil and the zero value are the defaults.
type Options struct {
	// Log receives one line per request; nil disables logging.
	Log *slog.Logger
	// HeaderLimit and BodyLimit are how long a request's header, and all of it, may
	// take to arrive, and WriteLimit how long the client may take to read the reply;
	// 0 means 10 s, 60 s and 60 s. The execution of a call has no limit here.
	HeaderLimit, BodyLimit, WriteLimit time.Duration
	// IdleLimit is how long a connection may be idle; 0 means two minutes.
	IdleLimit time.Duration
	// Gate admits requests; nil admits all that the listener accepts.
	Gate *gate.Gate
	// OpenSandbox serves the paths below /v1/ and /sandboxes/; nil serves none. A request's
	// context has the caller: see [service.CallerOf]. Those that are not keyed have a token, which
	// it checks.
	OpenSandbox interface {
		http.Handler
		Keyed(r *http.Request) bool
	}
	// Agents serves the path /mcp, as OpenSandbox does its own; nil serves none. Its Drain is
	// called when the server begins to stop: it ends requests that only wait for news.
	Agents interface {
		http.Handler
		Drain()
	}
	// SWEReX serves the paths that it says, as OpenSandbox does its own; nil serves none.
	SWEReX interface {
		http.Handler
		Serves(path string) bool
	}
	// E2B serves the requests that it says, before all others; nil serves none. Those that are not keyed have tokens of
	// its own, others a caller as with OpenSandbox. Refuse answers one that is not admitted.
	E2B interface {
		http.Handler
		Serves(r *http.Request) (is, keyed bool)
		Refuse(w http.ResponseWriter, r *http.Request, err error)
	}
	// Console serves what is below /console/; nil serves nothing. Requests that are not keyed are
	// for the files of a page. Refuse and Drain are as of E2B and of Agents.
	Console interface {
		http.Handler
		Keyed(r *http.Request) bool
		Refuse(w http.ResponseWriter, r *http.Request, err error)
		Drain()
	}
	// Metrics has /metrics answered; Meter is that of the service, and counts requests.
	Metrics bool
	Meter   *meter.Meter
	// Pool has what /metrics answers of the service's pool; nil: the service has none.
	Pool func() (*meter.Pool, error)
}

// A Server serves one service. It is an [http.Handler], and Serve accepts connections.
// It is safe for concurrent use.
type Server struct {
	service *service.Service
	log     *slog.Logger
	opts    Options
	http    *http.Server
	stop    context.CancelCauseFunc // cancels the contexts of all requests

	at serving
}

// New returns a server of a service, which the caller closes.
func New(service *service.Service, opts *Options) *Server {
	s := &Server{service: service}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.HeaderLimit = cmp.Or(s.opts.HeaderLimit, 10*time.Second)
	s.opts.BodyLimit = cmp.Or(s.opts.BodyLimit, time.Minute)
	s.opts.WriteLimit = cmp.Or(s.opts.WriteLimit, time.Minute)
	s.opts.IdleLimit = cmp.Or(s.opts.IdleLimit, 2*time.Minute)
	s.opts.Gate = cmp.Or(s.opts.Gate, gate.New(nil, false))
	s.log = cmp.Or(s.opts.Log, slog.New(slog.DiscardHandler))
	var ctx context.Context
	ctx, s.stop = context.WithCancelCause(context.Background())
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.opts.HeaderLimit,
		IdleTimeout:       s.opts.IdleLimit,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         s.at.note,
	}
	return s
}

// An entry is what the log line of a request says.
type entry struct {
	owner     registry.Owner
	key       string // the name of the API key
	sandboxID string
	code      string // of the error
	err       error  // in full
}

// about notes the owner and the sandbox of a request, if they are valid: invalid text
// does not get into the log.
func (e *entry) about(o registry.Owner, sandboxID string) {
	if o.Validate() == nil {
		e.owner = o
	}
	if runtime.IsID(sandboxID) {
		e.sandboxID = sandboxID
	}
}

// failure returns the status and the description of the error of a request, which it notes.
func (e *entry) failure(r *http.Request, id string, err error) (int, failure) {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(r.Context()), ErrStopping) {
		err = ErrStopping
	}
	status, f := failureOf(err)
	f.RequestID = id
	e.code = f.Code
	if status == http.StatusInternalServerError {
		e.err = err
	}
	return status, f
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	if s.at.stopping() {
		w.Header().Set("Connection", "close")
	}
	id := requestID(r.Header)
	if other := s.other(r); other != nil {
		s.pass(w, r, other, id, begin)
		return
	}
	name, _ := strings.CutPrefix(r.URL.Path, "/api/v1/")
	c, known := calls[name]
	if !known {
		name = "" // unknown text does not get into the log
	}
	e := &entry{}
	status, reply := s.answer(w, r, c, known, e, id)
	w.Header().Set(requestHeader, id)
	var n int64
	var cut error
	if l, is := reply.(live); is {
		status, n, cut = s.stream(w, r, l, e, id)
	} else {
		n, cut = s.write(w, status, reply)
	}
	attrs := []any{
		"requestId", id, "method", r.Method, "call", name, "status", status,
		"durationMs", time.Since(begin).Milliseconds(), "bytes", n,
	}
	if e.owner != (registry.Owner{}) {
		attrs = append(attrs, "organizationId", e.owner.OrganizationID, "projectId", e.owner.ProjectID, "userId", e.owner.UserID)
	}
	if e.key != "" {
		attrs = append(attrs, "key", e.key)
	}
	if e.sandboxID != "" {
		attrs = append(attrs, "sandboxId", e.sandboxID)
	}
	if e.code != "" {
		attrs = append(attrs, "code", e.code)
	}
	if cut != nil {
		attrs = append(attrs, "cut", cut.Error()) // not all of the reply was sent
	}
	s.opts.Meter.Answered(name, status)
	level := slog.LevelInfo
	if e.err != nil {
		level, attrs = slog.LevelError, append(attrs, "error", e.err)
	}
	s.log.Log(r.Context(), level, "request", attrs...)
}

// admit returns the caller of a request, or why it is refused.
func (s *Server) admit(r *http.Request) (service.Caller, error) {
	caller, err := s.opts.Gate.Admit(r)
	if err == nil {
		err = s.service.AdmitRequest(caller)
	}
	return caller, err
}

// answer executes a request. It does not panic.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c call, known bool, e *entry, id string) (status int, reply any) {
	fail := func(err error) (int, any) {
		gate.Hint(w.Header(), err)
		status, f := e.failure(r, id, err)
		return status, &errorReply{f, partial(err)}
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a request panicked", "requestId", id, "panic", p, "stack", string(debug.Stack()))
			status, reply = fail(fmt.Errorf("panic: %v", p))
		}
	}()
	s.limitBody(w, r)
	caller, err := s.admit(r)
	e.key = caller.Key
	if err == nil && !known {
		err = errNoCall
	}
	if err != nil {
		return fail(err)
	}
	body, err := readBody(w, r, c.maxBody)
	if err != nil {
		return fail(err)
	}
	status, reply, err = c.do(s, service.WithCaller(r.Context(), caller), e, body)
	if err != nil {
		return fail(err)
	}
	return status, reply
}

// stream sends a live reply. An error of the call is an event, unless nothing has begun: then it has a status of its own.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, l live, e *entry, id string) (status int, n int64, cut error) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	to := &recorder{ResponseWriter: w}
	out := stream.New[event](to, s.opts.WriteLimit)
	err := l(out)
	if err == nil {
		return http.StatusOK, to.n, nil
	}
	status, f := e.failure(r, id, err)
	reply := map[string]any{"error": f}
	var late *service.TimeoutError
	switch {
	case errors.As(err, &late):
		reply["result"] = endOf(late.Result)
	case to.status == 0:
		n, cut = s.write(w, status, &errorReply{f, partial(err)})
		return status, n, cut
	}
	cut = out.Send(event{"error", reply})
	return http.StatusOK, to.n, cut
}

// write sends the reply, at once and not when the handler ends, which has to write its log first. It returns the number of
// bytes that were sent. It gives up after WriteLimit.
func (s *Server) write(w http.ResponseWriter, status int, reply any) (int64, error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(s.opts.WriteLimit)); err != nil {
		return 0, err
	}
	out := &counter{w: w, status: status}
	buffered := buffers.Get().(*bufio.Writer)
	buffered.Reset(out)
	err := encode(buffered, reply)
	if !out.begun && err == nil {
		h.Set("Content-Length", strconv.Itoa(buffered.Buffered()))
	} else if !out.begun {
		w.WriteHeader(http.StatusInternalServerError)
	}
	if err == nil {
		err = buffered.Flush()
	}
	buffered.Reset(nil)
	buffers.Put(buffered)
	return out.n, cmp.Or(err, control.Flush())
}

// buffers are what replies are written into: most are small, and a new buffer for each would be
// most of what a request leaves to the garbage collector.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// A counter counts the bytes of a body that are written to w, after the status.
type counter struct {
	w      http.ResponseWriter
	status int
	begun  bool // the status is sent
	n      int64
}

func (c *counter) Write(b []byte) (int, error) {
	if !c.begun {
		c.begun = true
		c.w.WriteHeader(c.status)
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
