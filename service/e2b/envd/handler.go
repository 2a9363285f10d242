// Package envd serves what E2B's daemon envd serves in a sandbox, for one of a [service.Service].
// Processes, files and watchers are services of Connect, with messages in JSON; /files and others
// are plain HTTP.
package envd

import (
	"context"
	"crypto/subtle"
	"maps"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// Version is the version of envd that the handler is like.
const Version = "0.6.13"

// Options are a handler's options.
type Options = stream.Options

// A Box is a sandbox as the control API has made it.
type Box struct {
	// Caller may use the sandbox ID of the service.
	Caller service.Caller
	ID     string
	// SandboxID and TemplateID are E2B's names of it, which commands find in E2B_SANDBOX_ID and
	// E2B_TEMPLATE_ID.
	SandboxID, TemplateID string
	// Token is what X-Access-Token must be, and what signs URLs; empty: requests need none.
	Token string
	// Env has the variables of each command.
	Env map[string]string
}

// environment returns the variables of commands.
func (b *Box) environment(more map[string]string) map[string]string {
	env := map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": b.SandboxID, "E2B_TEMPLATE_ID": b.TemplateID}
	maps.Copy(env, b.Env)
	maps.Copy(env, more)
	return env
}

// A Handler serves the requests about sandboxes. It is safe for concurrent use.
type Handler struct {
	service *service.Service
	opts    Options
	mux     *http.ServeMux
	rooms   rooms
}

// New returns a handler over a service.
func New(s *service.Service, opts *Options) *Handler {
	h := &Handler{service: s, opts: opts.Whole(), mux: http.NewServeMux()}
	for pattern, serve := range map[string]func(*Handler, http.ResponseWriter, *http.Request) error{
		"GET /health":         (*Handler).health,
		"GET /metrics":        (*Handler).metrics,
		"GET /envs":           (*Handler).envs,
		"POST /init":          (*Handler).init,
		"GET /files":          (*Handler).download,
		"POST /files":         (*Handler).upload,
		"POST /files/compose": (*Handler).compose,
		"/":                   (*Handler).unknown,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(h, w, r); err != nil {
				h.fail(w, r, err)
			}
		})
	}
	h.processes()
	h.filesystem()
	return h
}

// A call is what a request is about.
type call struct {
	box  *Box
	in   *service.Inside
	room *room
}

type callKey struct{}

// callOf returns what a request is about.
// Precondition: ServeSandbox serves it.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// ServeSandbox serves a request about a sandbox: the caller has found which one, and nothing else
// was checked. One that does not run is answered with [NotRunning].
func (h *Handler) ServeSandbox(w http.ResponseWriter, r *http.Request, box *Box) {
	refused := box.admits(r)
	in, err := h.inside(r, box, refused == nil)
	switch {
	case isGone(err):
		NotRunning(w, box.SandboxID)
		return
	case err == nil && refused != nil && r.Method+" "+r.URL.Path == "GET /health":
		err = h.health(w, r)
	case err == nil:
		err = refused
	}
	if err != nil {
		h.fail(w, r, err)
	}
	if err != nil || refused != nil {
		return
	}
	room := h.rooms.enter(box.ID)
	defer h.rooms.exit(room)
	reply := &reply{stream.Patient{ResponseWriter: w, Limit: h.opts.WriteLimit}}
	if r.URL.Path == "/process.Process/StreamInput" { // which lasts as long as its client likes
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // always supported
	} else {
		r.Body = &stream.Body{ReadCloser: r.Body, Control: http.NewResponseController(w), Limit: h.opts.BodyLimit}
	}
	asked := r.WithContext(context.WithValue(r.Context(), callKey{}, &call{box, in, room}))
	h.mux.ServeHTTP(reply, asked)
	r.Pattern = "e2b envd " + asked.Pattern // for the log
}

// inside returns a handle on a sandbox that runs. A request that is not admitted gets none, and does
// not count as use of the sandbox.
func (h *Handler) inside(r *http.Request, box *Box, admitted bool) (*service.Inside, error) {
	if admitted {
		return h.service.Inside(r.Context(), box.Caller, box.ID)
	}
	b, err := h.service.Get(r.Context(), box.Caller, box.ID)
	if err == nil && b.State != runtime.StateRunning {
		err = errGone
	}
	return nil, err
}

// tokenHeader has the access token.
const tokenHeader = "X-Access-Token"

// same compares a token; an empty one is not wanted.
func same(got, want string) bool {
	return want == "" || subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}

// A reply gives the client time for each part of it. [connect.Handler] wants it to be a
// [http.Flusher].
type reply struct{ stream.Patient }

// Flush implements [http.Flusher].
func (r *reply) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() } // the next write fails too

// Leave kills or pauses a sandbox, its reference of the service, by do, after which new requests
// find that it does not run. Unless that fails, Leave then breaks the connections that clients have
// to its processes and watchers; how a process ends meanwhile they get only if it fails.
func (h *Handler) Leave(id string, do func() error) error { return h.rooms.leave(id, do) }

// unary serves a method with one message each way.
func unary[T, R any](
	h *Handler, procedure string,
	do func(ctx context.Context, c *call, q *T, header http.Header) (*R, error),
) {
	serve := func(ctx context.Context, q *connect.Request[T]) (*connect.Response[R], error) {
		r, err := do(ctx, callOf(ctx), q.Msg, q.Header())
		if err != nil {
			return nil, h.rpcError(ctx, err)
		}
		return connect.NewResponse(r), nil
	}
	h.mux.Handle("POST "+procedure, connect.NewUnaryHandler(procedure, serve, handlerOptions...))
}

// streaming serves a method that answers with messages as they come, until do returns. With errGone
// the connection is broken: the client then asks whether the sandbox runs.
func streaming[T, R any](
	h *Handler, procedure string,
	do func(ctx context.Context, c *call, q *T, header http.Header, send func(*R) error) error,
) {
	serve := func(ctx context.Context, q *connect.Request[T], to *connect.ServerStream[R]) error {
		err := do(ctx, callOf(ctx), q.Msg, q.Header(), to.Send)
		if err == errGone { //nolint:errorlint // it is itself
			panic(http.ErrAbortHandler)
		}
		return h.rpcError(ctx, err)
	}
	h.mux.Handle("POST "+procedure, connect.NewServerStreamHandler(procedure, serve, handlerOptions...))
}

// maxMessage is the largest message of a client, in bytes.
const maxMessage = 16 << 20

var handlerOptions = []connect.HandlerOption{
	connect.WithCodec(codec("json")), connect.WithCodec(codec("json; charset=utf-8")),
	connect.WithCompression("gzip", nil, nil), connect.WithReadMaxBytes(maxMessage),
}

// keepalive returns a ticker for signs of life of a stream, as its client wants them.
func keepalive(header http.Header) *time.Ticker { return time.NewTicker(keepalivePause(header)) }
