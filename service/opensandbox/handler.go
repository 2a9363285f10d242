package opensandbox

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"wolffia/service"
	"wolffia/service/gate"
)

// The ports that the endpoints of a sandbox have in OpenSandbox.
const (
	execdPort  = "44772"
	egressPort = "18080"
)

// Options are a handler's options. nil and the zero value are the defaults.
type Options struct {
	// Log receives the errors that are bugs; nil disables logging.
	Log *slog.Logger
	// BodyLimit is how long a request's body may take to arrive, but for uploads, which may
	// take ten times as long; WriteLimit is how long the client may take to read a part of
	// the reply. 0 means 60 s.
	BodyLimit, WriteLimit time.Duration
}

// A Handler is the [http.Handler] of the APIs. A request's context has its caller: see
// [gate.WithCaller]. It is safe for concurrent use.
type Handler struct {
	fleet *service.Fleet
	log   *slog.Logger
	opts  Options
	mux   *http.ServeMux
}

// New returns a handler over a fleet.
func New(fleet *service.Fleet, opts *Options) *Handler {
	h := &Handler{fleet: fleet, mux: http.NewServeMux()}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.BodyLimit = cmp.Or(h.opts.BodyLimit, time.Minute)
	h.opts.WriteLimit = cmp.Or(h.opts.WriteLimit, time.Minute)
	h.log = cmp.Or(h.opts.Log, slog.New(slog.DiscardHandler))
	for pattern, f := range map[string]func(*Handler, http.ResponseWriter, *http.Request) error{
		"POST /v1/sandboxes":                                    (*Handler).create,
		"GET /v1/sandboxes":                                     (*Handler).list,
		"GET /v1/sandboxes/{id}":                                (*Handler).get,
		"DELETE /v1/sandboxes/{id}":                             (*Handler).destroy,
		"POST /v1/sandboxes/{id}/pause":                         (*Handler).pause,
		"POST /v1/sandboxes/{id}/resume":                        (*Handler).resume,
		"POST /v1/sandboxes/{id}/renew-expiration":              (*Handler).renew,
		"GET /v1/sandboxes/{id}/endpoints/{port}":               (*Handler).endpoint,
		"POST /v1/metrics/events":                               (*Handler).metricsEvent,
		"POST /v1/sandboxes/{id}/snapshots":                     noSnapshots,
		"/v1/snapshots":                                         noSnapshots,
		"/v1/snapshots/{snapshot}":                              noSnapshots,
		"/sandboxes/{id}/port/{port}/{rest...}":                 (*Handler).otherPort,
		"/":                                                     (*Handler).unknown,
		execd("GET", "/ping"):                                   (*Handler).ping,
		execd("POST", "/command"):                               (*Handler).command,
		execd("DELETE", "/command"):                             (*Handler).interrupt,
		execd("GET", "/command/{command}/{part}"):               (*Handler).aboutCommand,
		execd("POST", "/session"):                               (*Handler).createSession,
		execd("POST", "/session/{session}/run"):                 (*Handler).runInSession,
		execd("DELETE", "/session/{session}"):                   (*Handler).destroySession,
		execd("GET", "/metrics"):                                (*Handler).metrics,
		execd("GET", "/files/info"):                             onFiles(onPaths(service.FileOpInfo), fileInfos),
		execd("DELETE", "/files"):                               onFiles(onPaths(service.FileOpRemove), done),
		execd("POST", "/files/permissions"):                     onFiles(onModes(service.FileOpMode), done),
		execd("POST", "/files/mv"):                              onFiles(moveRequest, done),
		execd("GET", "/files/search"):                           onFiles(searchRequest, fileList),
		execd("POST", "/files/replace"):                         onFiles(replaceRequest, replaced),
		execd("POST", "/files/upload"):                          (*Handler).upload,
		execd("GET", "/files/download"):                         (*Handler).download,
		execd("GET", "/directories/list"):                       onFiles(listRequest, fileList),
		execd("POST", "/directories"):                           onFiles(onModes(service.FileOpMkdir), done),
		execd("DELETE", "/directories"):                         onFiles(onPaths(service.FileOpRmdir), done),
		execd("", "/code"):                                      noKernels,
		execd("", "/code/{rest...}"):                            noKernels,
		execd("", "/proxy/{port}/{rest...}"):                    (*Handler).otherPort,
		"GET /sandboxes/{id}/port/18080/policy":                 (*Handler).policy,
		"PATCH /sandboxes/{id}/port/18080/policy":               fixedPolicy,
		"DELETE /sandboxes/{id}/port/18080/policy":              fixedPolicy,
		"/sandboxes/{id}/port/18080/credential-vault":           noVault,
		"/sandboxes/{id}/port/18080/credential-vault/{rest...}": noVault,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(h, w, r); err != nil {
				h.fail(w, r, err)
			}
		})
	}
	return h
}

// execd returns the pattern of a path of execd; an empty method means all.
func execd(method, path string) string {
	pattern := "/sandboxes/{id}/port/" + execdPort + path
	if method == "" {
		return pattern
	}
	return method + " " + pattern
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// unknown is the reply to a path or method that neither API has.
func (h *Handler) unknown(http.ResponseWriter, *http.Request) error {
	return &fault{http.StatusNotFound, "NOT_FOUND", "the API has no such method and path"}
}

// inside returns a handle on the running sandbox of a request.
func (h *Handler) inside(r *http.Request) (*service.Inside, error) {
	return h.fleet.Inside(r.Context(), gate.CallerOf(r.Context()), r.PathValue("id"))
}
