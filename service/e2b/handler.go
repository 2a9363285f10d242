// Package e2b serves the interface of E2B over a [service.Service], so that its SDKs work
// unchanged. It serves the control API, and passes on what is for the ports of a sandbox. Package
// envd serves processes and files.
package e2b

import (
	"net/http"
	"sync"

	"wolffia/ops/stream"
	"wolffia/service"
	"wolffia/service/e2b/envd"
	"wolffia/service/e2b/fault"
	"wolffia/service/e2b/interpreter"
)

// Options are a handler's options.
type Options struct {
	stream.Options
	Volumes *Volumes // nil: requests have none
	Builds  *Builds  // nil: requests build nothing
}

// A Handler is the [http.Handler] of the interface. The context of a request to the control API has
// its caller: see [service.WithCaller]. It is safe for concurrent use.
type Handler struct {
	service *service.Service
	opts    stream.Options
	volumes *Volumes
	making  sync.Mutex // held while a volume is made
	builds  *builder
	keyed   bool
	mux     *http.ServeMux
	envd    *envd.Handler
	code    *interpreter.Handler
}

// New returns a handler over a service. keyed says that this needs API keys, so that who sends a
// request to a port of a sandbox is not known.
func New(service *service.Service, keyed bool, opts *Options) *Handler {
	h := &Handler{
		service: service, mux: http.NewServeMux(), keyed: keyed, opts: opts.Whole(),
		volumes: opts.Volumes, builds: newBuilder(opts.Builds),
	}
	h.envd = envd.New(service, &h.opts)
	h.code = interpreter.New(&h.opts)
	for pattern, serve := range calls {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(h, w, r); err != nil {
				h.fail(w, r, err)
			}
		})
	}
	return h
}

// Close ends the builds that run, and returns when they have ended.
func (h *Handler) Close() { h.builds.close() }

// A call serves a request of the control API.
type call func(*Handler, http.ResponseWriter, *http.Request) error

// calls are the calls of the control API by their patterns of [http.ServeMux].
var calls = map[string]call{
	"/": unknown,

	"POST /sandboxes":                 (*Handler).create,
	"POST /v2/sandboxes":              (*Handler).create,
	"GET /sandboxes":                  (*Handler).listRunning,
	"GET /v2/sandboxes":               (*Handler).listSandboxes,
	"GET /sandboxes/metrics":          (*Handler).metricsOf,
	"GET /sandboxes/{id}":             (*Handler).get,
	"DELETE /sandboxes/{id}":          (*Handler).kill,
	"POST /sandboxes/{id}/connect":    (*Handler).connect,
	"POST /v2/sandboxes/{id}/connect": (*Handler).connect,
	"POST /sandboxes/{id}/resume":     (*Handler).resume,
	"POST /sandboxes/{id}/pause":      (*Handler).pause,
	"POST /sandboxes/{id}/timeout":    (*Handler).setTimeout,
	"POST /sandboxes/{id}/refreshes":  (*Handler).refresh,
	"GET /sandboxes/{id}/metrics":     (*Handler).metrics,
	"PUT /sandboxes/{id}/network":     (*Handler).changeNetwork,
	"POST /sandboxes/{id}/fork":       (*Handler).fork,
	"POST /v2/sandboxes/{id}/fork":    (*Handler).fork,
	"GET /sandboxes/{id}/logs":        without(noLogs),
	"GET /v2/sandboxes/{id}/logs":     without(noLogs),
	"POST /sandboxes/{id}/snapshots":  (*Handler).createSnapshot,
	"GET /snapshots":                  (*Handler).listSnapshots,

	"GET /templates/aliases/{alias}": (*Handler).alias,
	"DELETE /templates/{id}":         (*Handler).removeTemplate,
	"/templates":                     without(noTemplates),
	"/templates/{rest...}":           without(noTemplates),
	"/v2/templates":                  without(noTemplates),
	"/v2/templates/{rest...}":        without(noTemplates),

	"POST /v3/templates":                        (*Handler).newTemplate,
	"GET /templates/{id}/files/{hash}":          (*Handler).uploadLink,
	"POST /v2/templates/{id}/builds/{build}":    (*Handler).startBuild,
	"GET /templates/{id}/builds/{build}/status": (*Handler).buildStatus,
	"/default-templates":                        without(noTemplates),

	"POST /volumes":        (*Handler).newVolume,
	"GET /volumes":         (*Handler).listVolumes,
	"GET /volumes/{id}":    (*Handler).getVolume,
	"DELETE /volumes/{id}": (*Handler).removeVolume,

	"/secrets":           without(noSecrets),
	"/secrets/{rest...}": without(noSecrets),

	"/teams": without(noTeams), "/teams/{rest...}": without(noTeams),
	"/api-keys": without(noTeams), "/api-keys/{rest...}": without(noTeams),
	"/access-tokens": without(noTeams), "/access-tokens/{rest...}": without(noTeams),
	"/nodes": without(noTeams), "/nodes/{rest...}": without(noTeams),
	"/admin/{rest...}": without(noTeams),
}

// Why some calls are not there.
const (
	noLogs      = "logs: the service keeps none of commands: read their output"
	noTemplates = "templates: a template is an image of this host: see wolffia image"
	noBuilds    = "builds: requests may build nothing: start the service with --allow-builds, or use wolffia build"
	noVolumes   = "volumes: this service lets requests make none: start it with wolffia serve --allow-volumes"
	noSecrets   = "secrets: only wolffia serve --header adds secrets to what a sandbox sends"
	noTeams     = "teams, keys, nodes: a service has the keys of its file: see wolffia serve --api-keys"
)

func unknown(*Handler, http.ResponseWriter, *http.Request) error {
	return fault.New(http.StatusNotFound, "wolffia serves no such method and path of E2B's API")
}

// Serves reports whether a request is one of the interface. keyed says that it needs an API key:
// others have tokens, which ServeHTTP checks.
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
		err = h.content(w, r)
	case inUploads:
		r.Pattern = "e2b " + uploads
		err = h.upload(w, r)
	default:
		h.mux.ServeHTTP(w, r)
	}
	if err != nil {
		h.fail(w, r, err)
	}
}
