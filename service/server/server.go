package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// Options are a server's. nil and the zero value are the defaults.
type Options struct {
	// Log gets a line for each request; nil means nobody does.
	Log *slog.Logger
	// HeaderLimit and BodyLimit are how long a request's head, and its whole, may
	// take to arrive, and WriteLimit its answer to be taken; 0 means 10 s, 60 s
	// and 60 s. What happens in between has no limit of ours.
	HeaderLimit, BodyLimit, WriteLimit time.Duration
	// IdleLimit is how long a connection may wait for its next request; 0 means
	// two minutes.
	IdleLimit time.Duration
}

// A Server serves one service. It is an [http.Handler]; Serve has it listen. It
// is safe for concurrent use.
type Server struct {
	service *service.Service
	log     *slog.Logger
	opts    Options
	http    *http.Server
	stop    context.CancelCauseFunc // ends the context of all requests
}

// New returns a server of a service, which stays the caller's.
func New(service *service.Service, opts *Options) *Server {
	s := &Server{service: service}
	if opts != nil {
		s.opts = *opts
	}
	for _, d := range []struct {
		limit *time.Duration
		or    time.Duration
	}{
		{&s.opts.HeaderLimit, 10 * time.Second},
		{&s.opts.BodyLimit, time.Minute},
		{&s.opts.WriteLimit, time.Minute},
		{&s.opts.IdleLimit, 2 * time.Minute},
	} {
		*d.limit = cmp.Or(*d.limit, d.or)
	}
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
	}
	return s
}

// Serve answers who connects, until Stop or Close, after which it returns nil. It
// closes l.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// cutLimit is how long requests that are cut off may take to end.
const cutLimit = 5 * time.Second

// Stop takes no more requests, and returns when those that run have ended. After
// grace their contexts are, with [ErrStopping] as the cause; the error says if
// even then they do not end. If ctx ends, none is waited for. Sandboxes go on.
func (s *Server) Stop(ctx context.Context, grace time.Duration) error {
	defer s.stop(ErrStopping)
	gentle, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := s.http.Shutdown(gentle)
	if err == nil {
		return nil
	}
	s.stop(ErrStopping)
	rest, cancel := context.WithTimeout(ctx, cutLimit)
	defer cancel()
	if s.http.Shutdown(rest) != nil {
		return errors.Join(runtime.Errorf(runtime.ErrUnavailable, "requests do not end"), s.http.Close())
	}
	return nil
}

// Close cuts everything off at once.
func (s *Server) Close() error {
	s.stop(ErrStopping)
	return s.http.Close()
}

// An entry is what the log tells of a request.
type entry struct {
	owner     registry.Owner
	sandboxID string
	code      string // of the error
	err       error  // in full
}

// about notes whose request it is, and of which sandbox: nothing but what is
// valid gets into the log.
func (e *entry) about(o registry.Owner, sandboxID string) {
	if o.Validate() == nil {
		e.owner = o
	}
	if runtime.IsID(sandboxID) {
		e.sandboxID = sandboxID
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	id := requestID(r.Header)
	name, _ := strings.CutPrefix(r.URL.Path, "/api/v1/")
	c, known := calls[name]
	if !known {
		name = "" // it may be anything
	}
	e := &entry{}
	status, reply := s.answer(w, r, c, known, e, id)
	w.Header().Set(requestHeader, id)
	n, cut := s.write(w, status, reply)
	attrs := []any{
		"requestId", id, "method", r.Method, "call", name, "status", status,
		"durationMs", time.Since(begin).Milliseconds(), "bytes", n,
	}
	if e.owner != (registry.Owner{}) {
		attrs = append(attrs, "organizationId", e.owner.OrganizationID, "projectId", e.owner.ProjectID, "userId", e.owner.UserID)
	}
	if e.sandboxID != "" {
		attrs = append(attrs, "sandboxId", e.sandboxID)
	}
	if e.code != "" {
		attrs = append(attrs, "code", e.code)
	}
	if cut != nil {
		attrs = append(attrs, "cut", cut.Error()) // not all of it was sent
	}
	level := slog.LevelInfo
	if e.err != nil {
		level, attrs = slog.LevelError, append(attrs, "error", e.err)
	}
	s.log.Log(r.Context(), level, "request", attrs...)
}

// answer does what a request asks for. It does not panic.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c call, known bool, e *entry, id string) (status int, reply any) {
	fail := func(err error) (int, any) {
		if errors.Is(err, context.Canceled) && errors.Is(context.Cause(r.Context()), ErrStopping) {
			err = ErrStopping
		}
		status, f := failureOf(err)
		f.RequestID = id
		e.code = f.Code
		if status == http.StatusInternalServerError {
			e.err = err
		}
		return status, &errorReply{f, partial(err)}
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a request has panicked", "requestId", id, "panic", p, "stack", string(debug.Stack()))
			status, reply = fail(errors.New("it has panicked"))
		}
	}()
	max := int64(smallBody)
	if known {
		max = c.maxBody
	}
	body, err := readBody(w, r, max, s.opts.BodyLimit)
	if err == nil && !known {
		err = errNoCall
	}
	if err != nil {
		return fail(err)
	}
	status, reply, err = c.do(s, r.Context(), e, body)
	if err != nil {
		return fail(err)
	}
	return status, reply
}

// write sends the answer and returns how long it is, in bytes, as far as it was
// taken. Who has not taken it in time is not waited for.
func (s *Server) write(w http.ResponseWriter, status int, reply any) (int64, error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.WriteLimit)); err != nil {
		return 0, err
	}
	w.WriteHeader(status)
	out := &counter{w: w}
	buffered := bufio.NewWriterSize(out, 64<<10)
	err := encode(buffered, reply)
	if err == nil {
		err = buffered.Flush()
	}
	return out.n, err
}

// A counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
