package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/meter"
)

// other returns the handler of a path that is not a call's; nil for those of calls.
func (s *Server) other(r *http.Request) http.Handler {
	if s.opts.E2B != nil { // first: headers name a sandbox, and the path is a server's inside
		if is, keyed := s.opts.E2B.Serves(r); is {
			return s.admitted(s.opts.E2B, keyed, s.opts.E2B.Refuse)
		}
	}
	switch path := r.URL.Path; {
	case path == "/health":
		return named("/health", s.health)
	case path == "/api/v1/openapi.json" && r.Method == http.MethodGet:
		return s.admitted(http.HandlerFunc(describe), true, refuse)
	case path == "/metrics" && s.opts.Metrics:
		return named("/metrics", s.metrics)
	case s.opts.OpenSandbox != nil && (strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/sandboxes/")):
		return s.admitted(s.opts.OpenSandbox, s.opts.OpenSandbox.Keyed(r), refuse)
	case s.opts.Console != nil && (path == "/console" || strings.HasPrefix(path, "/console/")):
		return s.admitted(s.opts.Console, s.opts.Console.Keyed(r), s.opts.Console.Refuse)
	case s.opts.Agents != nil && path == "/mcp":
		return s.admitted(s.opts.Agents, true, refuse)
	case s.opts.SWEReX != nil && s.opts.SWEReX.Serves(path):
		return s.admitted(s.opts.SWEReX, true, refuse)
	}
	return nil
}

// named returns a handler whose requests are logged and counted as path.
func named(path string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = path
		h(w, r)
	})
}

// giveTime lets the client take WriteLimit to read a short reply.
func (s *Server) giveTime(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.WriteLimit)) // always supported
}

// limitBody lets the client take BodyLimit to send the rest of the request, whether or not that is read: before a reply the server
// itself waits for it.
func (s *Server) limitBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != http.NoBody { // else the end of the connection is what the server reads for
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opts.BodyLimit)) // always supported
	}
}

// health answers that the service serves, to all that may send requests.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	s.giveTime(w)
	if err := s.opts.Gate.Checked(r); err != nil {
		refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"status":"healthy"}` + "\n"))
}

// metrics answers with the counts of the service, to callers that may use all sandboxes.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	s.giveTime(w)
	caller, err := s.admit(r)
	if err == nil && !caller.All {
		err = &gate.Refusal{Status: http.StatusForbidden, Code: "DENIED", Message: "the API key is for one owner: metrics are of all"}
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	all, err := s.service.Census(r.Context())
	if err != nil {
		refuse(w, r, &gate.Refusal{Status: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: err.Error()})
		return
	}
	var pool *meter.Pool
	if s.opts.Pool != nil {
		if pool, err = s.opts.Pool(); err != nil {
			refuse(w, r, &gate.Refusal{Status: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: err.Error()})
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = s.opts.Meter.Write(w, all, pool) // else the client has gone
}

// admitted returns the handler of a path whose requests the gate admits, with their caller. Those that are not keyed have
// a credential that h checks. refuse answers the others.
func (s *Server) admitted(h http.Handler, keyed bool, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.giveTime(w)
		var caller service.Caller
		err := s.opts.Gate.Checked(r)
		if keyed {
			caller, err = s.admit(r)
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		*r = *r.WithContext(service.WithCaller(r.Context(), caller)) // pass reads the pattern of r
		h.ServeHTTP(w, r)
	})
}

// refuse answers with an error, as calls of OpenSandbox do.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	status, f := failureOf(err)
	gate.Hint(w.Header(), err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": f.Code, "message": f.Message})
}

// pass serves a request with another handler, and logs it. The log has the pattern of the
// path, and no part of the path that the client has chosen.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, h http.Handler, id string, begin time.Time) {
	s.limitBody(w, r)
	out := &recorder{ResponseWriter: w}
	out.Header().Set(requestHeader, id)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	defer func() {
		p := recover()
		attrs := []any{
			"requestId", id, "method", r.Method, "call", r.Pattern, "status", out.status,
			"durationMs", time.Since(begin).Milliseconds(), "bytes", out.n,
		}
		s.opts.Meter.Answered(r.Pattern, cmp.Or(out.status, http.StatusInternalServerError))
		level := slog.LevelInfo
		if err, is := p.(error); p != nil && (!is || !errors.Is(err, http.ErrAbortHandler)) {
			level, attrs = slog.LevelError, append(attrs, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		s.log.Log(r.Context(), level, "request", attrs...)
		if p != nil {
			panic(http.ErrAbortHandler) // the client sees that the reply is not complete
		}
	}()
	h.ServeHTTP(out, r)
	if out.status == 0 {
		out.status = http.StatusOK
	}
}

// A recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing yet
	n      int64
}

// WriteHeader implements [http.ResponseWriter].
func (o *recorder) WriteHeader(status int) {
	if o.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) { // else a final one follows
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (o *recorder) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	n, err := o.ResponseWriter.Write(b)
	o.n += int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (o *recorder) Unwrap() http.ResponseWriter { return o.ResponseWriter }
