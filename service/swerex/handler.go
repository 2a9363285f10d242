// Package swerex serves the HTTP interface of SWE-ReX 1.4 over a [service.Service], so that its
// RemoteDeployment works unchanged. It only translates: a session of SWE-ReX is a session of the
// sandbox. Source: swerex/server.py and swerex/runtime of that package.
package swerex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/gate"
)

// Options are those of [stream.Options]; BodyLimit is for each part of a request's body.
type Options = stream.Options

// A Handler is the [http.Handler] of the interface. A request's context has its caller: see
// [service.WithCaller]. It is safe for concurrent use.
type Handler struct {
	service *service.Service
	opts    Options
	shells  shells
}

// New returns a handler over a service. The caller closes it before the service.
func New(service *service.Service, opts *Options) *Handler {
	return &Handler{service: service, opts: opts.Whole()}
}

// Close ends the commands that no request waits for. Sandboxes keep running.
func (h *Handler) Close() { h.shells.close() }

// A call is what is served at a path.
type call struct {
	method string
	serve  func(*Handler, http.ResponseWriter, *http.Request, string) (any, error) // the text is the name of a sandbox
}

// calls are the calls by name.
var calls = map[string]call{
	"is_alive":       {http.MethodGet, (*Handler).isAlive},
	"create_session": onInside((*Handler).createSession),
	"run_in_session": onInside((*Handler).runInSession),
	"close_session":  onInside((*Handler).closeSession),
	"execute":        onInside((*Handler).execute),
	"read_file":      onInside((*Handler).readFile),
	"write_file":     onInside((*Handler).writeFile),
	"upload":         {http.MethodPost, (*Handler).upload},
	"close":          {http.MethodPost, (*Handler).close},
}

// onInside returns a call with a body of JSON that works in a running sandbox.
func onInside[Q any](do func(*Handler, context.Context, *service.Inside, *Q) (any, error)) call {
	return call{http.MethodPost, func(h *Handler, w http.ResponseWriter, r *http.Request, sandbox string) (any, error) {
		q := new(Q)
		if err := h.decode(w, r, q); err != nil {
			return nil, err
		}
		in, err := h.inside(r.Context(), sandbox)
		if err != nil {
			return nil, err
		}
		return do(h, r.Context(), in, q)
	}}
}

// pathOf splits a path: /CALL is for the owner's own sandbox, /swerex/NAME/CALL for the one of a name.
func pathOf(path string) (c call, sandbox, pattern string, ok bool) {
	name := strings.TrimPrefix(path, "/")
	pattern = "/"
	if rest, is := strings.CutPrefix(name, "swerex/"); is {
		if sandbox, name, _ = strings.Cut(rest, "/"); sandbox == "" {
			return call{}, "", "", false
		}
		pattern = "/swerex/{sandbox}/"
	}
	c, ok = calls[name]
	return c, sandbox, pattern + name, ok
}

// Serves reports whether a path is one of the interface.
func (h *Handler) Serves(path string) bool {
	_, _, _, ok := pathOf(path)
	return ok
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, sandbox, pattern, ok := pathOf(r.URL.Path)
	switch {
	case !ok:
		h.fail(w, r, &fault{http.StatusNotFound, "Not Found"})
		return
	case c.method != r.Method:
		w.Header().Set("Allow", c.method)
		h.fail(w, r, &fault{http.StatusMethodNotAllowed, "Method Not Allowed"})
		return
	}
	r.Pattern = pattern // for the log
	reply, err := c.serve(h, w, r, sandbox)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.opts.JSON(w, http.StatusOK, reply)
}

// inside returns a handle on the sandbox of a name, or without one on the owner's own. It is made if
// there is none.
func (h *Handler) inside(ctx context.Context, name string) (*service.Inside, error) {
	caller := service.CallerOf(ctx)
	if name == "" {
		if m, err := h.service.Owned().FindSandbox(ctx, caller.Subject()); err == nil {
			if in, err := h.service.Inside(ctx, caller, m.SandboxID); err == nil {
				return in, nil // without the test that Named does
			}
		}
	}
	id, err := h.service.Named(ctx, caller, caller.Subject(), name)
	if err != nil {
		return nil, err
	}
	return h.service.Inside(ctx, caller, id)
}

type empty struct{}

// isAlive serves GET /is_alive. It makes no sandbox: clients wait for 0.15 s.
func (h *Handler) isAlive(http.ResponseWriter, *http.Request, string) (any, error) {
	return struct {
		Alive   bool   `json:"is_alive"`
		Message string `json:"message"`
	}{Alive: true}, nil
}

// close serves POST /close. It destroys the sandbox, as deployments on Docker do; one with a copied
// codebase has changes that were not reviewed, so it is stopped.
func (h *Handler) close(_ http.ResponseWriter, r *http.Request, name string) (any, error) {
	ctx, caller := r.Context(), service.CallerOf(r.Context())
	if name == "" {
		if _, err := h.service.Owned().FindSandbox(ctx, caller.Subject()); errors.Is(err, runtime.ErrNotFound) {
			return empty{}, nil
		}
	}
	in, err := h.inside(ctx, name)
	if err != nil {
		return nil, err
	}
	box := in.Sandbox()
	if box.CopyOnWrite {
		return empty{}, h.service.Stop(ctx, caller, box.ID)
	}
	return empty{}, h.service.Destroy(ctx, caller, box.ID)
}

// A fault is an error that is no exception of the runtime's.
type fault struct {
	status int
	detail string
}

func (f *fault) Error() string { return f.detail }

// An exception is an error that the client raises as one of this class.
type exception struct {
	Message   string         `json:"message"`
	Class     string         `json:"class_path"`
	Traceback string         `json:"traceback"`
	Extra     map[string]any `json:"extra_info"`
}

func (e *exception) Error() string { return e.Message }

// raise returns an exception of a class of swerex.exceptions, or another with its module.
func raise(class, message string) *exception {
	if !strings.Contains(class, ".") {
		class = "swerex.exceptions." + class
	}
	return &exception{Message: message, Class: class, Extra: map[string]any{}}
}

// statusException is the status of a reply with an exception.
const statusException = http.StatusNetworkAuthenticationRequired

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var f *fault
	if errors.As(err, &f) {
		h.opts.JSON(w, f.status, map[string]string{"detail": f.detail})
		return
	}
	e, is := errors.AsType[*exception](err)
	if !is {
		text := err.Error()
		if _, known := gate.StatusOf(err); !known {
			h.opts.Bug(w, r, err)
			text = "internal error: see the service's log for this request id"
		}
		e = raise("SwerexException", text)
	}
	gate.Hint(w.Header(), err)
	h.opts.JSON(w, statusException, map[string]*exception{"swerexception": e})
}

// maxBody is the largest body of JSON, in bytes.
const maxBody = 64 << 20

// decode decodes the body of a request, one JSON value, into to. Unknown fields are ignored, as
// SWE-ReX does.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := h.opts.Read(w, r, maxBody)
	if err == nil {
		if err = json.Unmarshal(body, to); err != nil {
			return &fault{http.StatusUnprocessableEntity, "the request's body: " + err.Error()}
		}
	}
	return bodyFault(err)
}

// bodyFault returns the error for a body that could not be read.
func bodyFault(err error) error {
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", large.Limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{http.StatusRequestTimeout, "the request's body has not arrived in time"}
	}
	return &fault{http.StatusUnprocessableEntity, "the request's body cannot be read: " + err.Error()}
}
