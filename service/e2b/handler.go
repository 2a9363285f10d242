// Package e2b serves the interface of E2B over a [service.Service], so that its SDKs work unchanged.
// It serves the control API, and passes on what is for the ports of a sandbox. Package envd serves
// processes and files.
package e2b

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"wolffia/service"
	"wolffia/service/e2b/envd"
)

// Options are a handler's options. nil and the zero value are the defaults.
type Options struct {
	// Log receives the errors that are bugs; nil disables logging.
	Log *slog.Logger
	// BodyLimit is how long each part of a request's body may take to arrive, WriteLimit how long the client may take to
	// read a part of the reply. 0 means 60 s.
	BodyLimit, WriteLimit time.Duration
}

// A Handler is the [http.Handler] of the interface. The context of a request to the control API has its caller: see
// [service.WithCaller]. It is safe for concurrent use.
type Handler struct {
	service *service.Service
	log     *slog.Logger
	opts    Options
	mux     *http.ServeMux
	envd    *envd.Handler
}

// New returns a handler over a service.
func New(service *service.Service, opts *Options) *Handler {
	h := &Handler{service: service, mux: http.NewServeMux()}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.BodyLimit = cmp.Or(h.opts.BodyLimit, time.Minute)
	h.opts.WriteLimit = cmp.Or(h.opts.WriteLimit, time.Minute)
	h.log = cmp.Or(h.opts.Log, slog.New(slog.DiscardHandler))
	h.envd = envd.New(service, &envd.Options{Log: h.log, BodyLimit: h.opts.BodyLimit, WriteLimit: h.opts.WriteLimit})
	for pattern, serve := range calls {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(h, w, r); err != nil {
				h.fail(w, r, err)
			}
		})
	}
	return h
}

// A call serves a request of the control API.
type call func(*Handler, http.ResponseWriter, *http.Request) error

// calls are the calls of the control API by their patterns of [http.ServeMux].
var calls = map[string]call{
	"/": unknown,
}

func unknown(*Handler, http.ResponseWriter, *http.Request) error {
	return &fault{http.StatusNotFound, "wolffia serves no such method and path of E2B's API"}
}

// Serves reports whether a request is one of the interface. keyed says that it needs an API key: others have tokens, which
// ServeHTTP checks.
func (h *Handler) Serves(r *http.Request) (is, keyed bool) {
	k := routeOf(r).kind
	return k != other, k == control
}

// Refuse answers a request that is not admitted, with why.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) { h.fail(w, r, err) }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch to := routeOf(r); to.kind {
	case traffic:
		r.Pattern = "e2b traffic" // for the log
		err = h.traffic(w, r, to)
	case signed:
		r.Pattern = "e2b /files"
		err = h.signed(w, r)
	case inVolumes:
		r.Pattern = "e2b /volumecontent"
		err = unsupported("volumes")
	default:
		h.mux.ServeHTTP(w, r)
	}
	if err != nil {
		h.fail(w, r, err)
	}
}
