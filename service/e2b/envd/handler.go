// Package envd serves what E2B's daemon envd serves in a sandbox, for one of a [service.Service]. Processes, files and
// watchers are services of Connect, with messages in JSON; /files and others are plain HTTP.
package envd

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"wolffia/service"
)

// Version is the version of envd that the handler is like.
const Version = "0.6.13"

// Options are a handler's options. nil and the zero value are the defaults.
type Options struct {
	// Log receives the errors that are bugs; nil disables logging.
	Log *slog.Logger
	// BodyLimit is how long each part of a request's body may take to arrive; WriteLimit is how long the client may take to
	// read a part of the reply. 0 means 60 s.
	BodyLimit, WriteLimit time.Duration
}

// A Box is a sandbox as the control API has made it.
type Box struct {
	// Caller may use the sandbox ID of the service.
	Caller service.Caller
	ID     string
	// SandboxID and TemplateID are E2B's names of it, which commands find in E2B_SANDBOX_ID and E2B_TEMPLATE_ID.
	SandboxID, TemplateID string
	// Token is what X-Access-Token must be, and what signs URLs; empty: requests need none.
	Token string
	// Env has the variables of each command.
	Env map[string]string
}

// A Handler serves the requests about sandboxes. It is safe for concurrent use.
type Handler struct {
	service *service.Service
	opts    Options
}

// New returns a handler over a service.
func New(s *service.Service, opts *Options) *Handler {
	h := &Handler{service: s}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.Log = cmp.Or(h.opts.Log, slog.New(slog.DiscardHandler))
	h.opts.BodyLimit = cmp.Or(h.opts.BodyLimit, time.Minute)
	h.opts.WriteLimit = cmp.Or(h.opts.WriteLimit, time.Minute)
	return h
}

// ServeSandbox serves a request about a sandbox: the caller has found which one, and nothing else was checked. One that
// does not run is answered with [NotRunning].
func (h *Handler) ServeSandbox(w http.ResponseWriter, _ *http.Request, _ *Box) {
	w.WriteHeader(http.StatusNotImplemented)
}

// Leave breaks the connections that clients have to processes and watchers of a sandbox: its reference of the service.
// Whoever kills or pauses it calls Leave when new requests already find that it does not run.
func (h *Handler) Leave(string) {}

// NotRunning answers a request about a sandbox, by E2B's name, that does not run, or does not exist.
func NotRunning(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotImplemented) }

// Signs reports whether the token of a sandbox has signed the URL of a request to /files.
func Signs(string, *http.Request) bool { return false }
