// Package console serves a page on which a user watches the sandboxes of a [service.Service].
//
// It has the page's HTTP API too. The page is in the directory web: TypeScript, which go generate makes the files of web/dist of. A
// request of the API has its caller: see [service.WithCaller]. All texts of a sandbox are members of
// JSON, and never HTML.
package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/gate"
)

// Root is where a Handler serves.
const Root = "/console/"

const api = Root + "api/"

// Options are what a Handler needs. Service, Version and Mode are required.
type Options struct {
	Service *service.Service
	Version string
	Mode    string // "local" or "serve"
	// Asker passes questions on; nil: there are none.
	Asker runtime.Asker
	// Answer gives an answer with [runtime.ScopeAlways], which it writes into a configuration, and
	// returns what it has written; nil: there is no such answer. It is for callers with All.
	Answer func(ctx context.Context, sandboxID string, q *runtime.Question, a *runtime.Answer) (note string, err error)
	// Rules changes rules; nil: they are shown only. It is for callers with All.
	Rules Rules
	// Commits shows and takes the commits of sandboxes; nil: it cannot be done.
	Commits Commits
	// Evidence is the log of what was done; nil: there is none. It is for callers with All.
	Evidence Evidence
	// Log receives what fails without a request; nil discards it.
	Log *slog.Logger
}

// A Handler is the [http.Handler] of the page. It is safe for concurrent use. The caller closes it
// before the service.
type Handler struct {
	opts  Options
	watch service.Watch
	mux   *http.ServeMux
	hub   *hub
	log   *slog.Logger

	ctx    context.Context // ends with Drain
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// New returns a handler, which takes samples until Close.
func New(o *Options) *Handler {
	h := &Handler{opts: *o, watch: service.WatchOf(o.Service), mux: http.NewServeMux(), log: o.Log}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.hub = newHub(h)
	for pattern, do := range calls {
		h.mux.Handle(route(pattern), h.serve(do))
	}
	h.mux.HandleFunc("GET "+Root+"{file...}", page)
	h.mux.HandleFunc("GET "+strings.TrimSuffix(Root, "/"), func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, Root, http.StatusMovedPermanently)
	})
	h.work.Go(func() { h.hub.run(h.ctx) })
	return h
}

// route returns the pattern of a call for a ServeMux.
func route(pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	return method + " " + api + path
}

// Serves reports whether a path is of the page or of its API.
func Serves(path string) bool { return path+"/" == Root || strings.HasPrefix(path, Root) }

// Keyed reports whether a request needs a key: those of the API do. The key of a WebSocket, which a
// page can send as a subprotocol only, becomes the one of the header.
func (h *Handler) Keyed(r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, api) {
		return false
	}
	tokenOfProtocol(r)
	return true
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if err := ofOwnPage(r); err != nil {
		h.Refuse(w, r, err)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// Drain ends the streams of events and the terminals, which wait for news only.
func (h *Handler) Drain() { h.cancel() }

// Close ends what Drain does, and the samples.
func (h *Handler) Close() {
	h.cancel()
	h.work.Wait()
}

// A call is a request of the API.
type call struct {
	*http.Request
	w      http.ResponseWriter
	caller service.Caller
	id     string // of the sandbox; empty: none is named
}

// errAnswered is returned by what has answered a call by itself.
var errAnswered = errors.New("it is answered")

// A do answers a call with a value, which becomes JSON.
type do func(h *Handler, c *call) (any, error)

// calls are the calls of the API, by method and path.
var calls = map[string]do{
	"GET about":                                       (*Handler).about,
	"GET sandboxes":                                   (*Handler).sandboxes,
	"GET history":                                     (*Handler).histories,
	"GET events":                                      (*Handler).events,
	"GET sandboxes/{id}":                              (*Handler).sandbox,
	"GET sandboxes/{id}/history":                      (*Handler).history,
	"POST sandboxes/{id}/start":                       post(start),
	"POST sandboxes/{id}/stop":                        post(stop),
	"POST sandboxes/{id}/pause":                       post(pause),
	"POST sandboxes/{id}/resume":                      post(resume),
	"POST sandboxes/{id}/destroy":                     post(destroy),
	"GET sandboxes/{id}/denied":                       (*Handler).denied,
	"GET sandboxes/{id}/sessions":                     inside(sessions),
	"POST sandboxes/{id}/sessions":                    post(startSession),
	"POST sandboxes/{id}/sessions/{name}/end":         post(endSession),
	"GET sandboxes/{id}/sessions/{name}/terminal":     (*Handler).terminal,
	"GET sandboxes/{id}/jobs":                         inside(jobs),
	"GET sandboxes/{id}/jobs/output":                  inside(jobOutput),
	"POST sandboxes/{id}/jobs":                        post(startJob),
	"POST sandboxes/{id}/jobs/signal":                 post(signalJob),
	"GET sandboxes/{id}/files":                        inside(files),
	"GET sandboxes/{id}/file":                         inside(file),
	"GET sandboxes/{id}/download":                     inside(download),
	"GET sandboxes/{id}/rules":                        (*Handler).rules,
	"POST sandboxes/{id}/rules":                       post(setRules),
	"POST sandboxes/{id}/rules/check":                 post(checkRules),
	"POST sandboxes/{id}/network":                     post(setNetwork),
	"GET sandboxes/{id}/changes":                      (*Handler).changes,
	"GET sandboxes/{id}/diff":                         (*Handler).diff,
	"POST sandboxes/{id}/changes/apply":               post(apply),
	"POST sandboxes/{id}/changes/discard":             post(discard),
	"GET sandboxes/{id}/snapshots":                    (*Handler).snapshots,
	"POST sandboxes/{id}/snapshots":                   post(snapshot),
	"POST sandboxes/{id}/snapshots/restore":           post(restoreSnapshot),
	"POST sandboxes/{id}/snapshots/remove":            post(removeSnapshot),
	"POST sandboxes/{id}/fork":                        post(fork),
	"GET sandboxes/{id}/commits":                      (*Handler).commits,
	"POST sandboxes/{id}/commits/export":              post(exportCommits),
	"GET questions":                                   (*Handler).questions,
	"POST sandboxes/{id}/questions/{question}/answer": post(answer),
	"GET evidence":                                    (*Handler).evidence,
	"GET evidence/verify":                             (*Handler).verifyEvidence,
	"GET evidence/export":                             (*Handler).exportEvidence,
}

// serve returns the handler of a call.
func (h *Handler) serve(do do) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{r, w, service.CallerOf(r.Context()), r.PathValue("id")}
		reply, err := do(h, c)
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			h.Refuse(w, r, err)
		default:
			writeJSON(w, http.StatusOK, reply)
		}
	})
}

// post returns a call with a body, of which Q is the type.
func post[Q any](f func(h *Handler, c *call, q *Q) (any, error)) do {
	return func(h *Handler, c *call) (any, error) {
		var q Q
		if err := decode(c.w, c.Request, &q); err != nil {
			return nil, err
		}
		return f(h, c, &q)
	}
}

// inside returns a call about what is in a running sandbox.
func inside(f func(c *call, in *service.Inside) (any, error)) do {
	return func(h *Handler, c *call) (any, error) {
		in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
		if err != nil {
			return nil, err
		}
		return f(c, in)
	}
}

// all returns an error unless the caller may use all sandboxes.
func (c *call) all(what string) error {
	if c.caller.All {
		return nil
	}
	return &gate.Refusal{Status: http.StatusForbidden, Code: "denied", Message: what + ": the API key is for one owner, and this is for keys without an owner"}
}

// An about says what serves the page, and to whom.
type about struct {
	Version       string   `json:"version"`
	Mode          string   `json:"mode"`
	All           bool     `json:"all"`
	Owner         string   `json:"owner"`
	Key           string   `json:"key"`
	Now           int64    `json:"now"` // ms since 1970
	SampleSeconds int      `json:"sampleSeconds"`
	Can           []string `json:"can"`
}

func (h *Handler) about(c *call) (any, error) {
	a := about{
		Version: h.opts.Version, Mode: h.opts.Mode, All: c.caller.All, Owner: ownerText(c.caller.Owner), Key: c.caller.Key, Now: nowMS(),
		SampleSeconds: int(sampleEach.Seconds()), Can: []string{},
	}
	for _, part := range []struct {
		name string
		is   bool
	}{
		{"apply", h.watch.AppliesChanges()},
		{"rules", h.opts.Rules != nil && c.caller.All},
		{"commits", h.opts.Commits != nil},
		{"evidence", h.opts.Evidence != nil && c.caller.All},
		{"questions", h.opts.Asker != nil},
		{"answers", h.opts.Asker != nil && h.watch.Answers(c.caller)},
		{"always", h.opts.Asker != nil && h.opts.Answer != nil && c.caller.All},
	} {
		if part.is {
			a.Can = append(a.Can, part.name)
		}
	}
	return a, nil
}
