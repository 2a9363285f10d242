// Package interpreter serves E2B's code interpreter for one sandbox: its port 49999. It translates
// to package ops/code.
package interpreter

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"wolffia/ops/code"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
)

// A Box is a sandbox as the interpreter needs it. The caller has checked that the request may use it.
type Box struct{ *service.Inside }

// A Handler serves the interpreter. It is safe for concurrent use.
type Handler struct{ opts stream.Options }

// New returns a handler.
func New(opts *stream.Options) *Handler { return &Handler{opts.Whole()} }

// A call serves a request about a sandbox. Its reply is text, or JSON; nil: it has replied.
type call func(*Handler, http.ResponseWriter, *http.Request, *Box) (any, error)

var calls = map[string]call{
	"GET /health":   func(*Handler, http.ResponseWriter, *http.Request, *Box) (any, error) { return "OK", nil },
	"POST /execute": (*Handler).execute,
	"GET /contexts": (*Handler).list, "POST /contexts": (*Handler).create,
	"POST /contexts/ID/restart": (*Handler).restart, "DELETE /contexts/ID": (*Handler).remove,
}

// ServeSandbox serves a request to the interpreter of a running sandbox.
func (h *Handler) ServeSandbox(w http.ResponseWriter, r *http.Request, b *Box) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) > 1 {
		r.SetPathValue("id", parts[1])
		parts[1] = "ID"
	}
	do, is := calls[r.Method+" /"+strings.Join(parts, "/")]
	if !is {
		h.fail(w, http.StatusNotFound, "the code interpreter has no such method and path")
		return
	}
	reply, err := do(h, w, r, b)
	switch {
	case err != nil:
		h.refuse(w, r, err)
	case reply != nil:
		h.opts.JSON(w, http.StatusOK, reply)
	}
}

// refuse answers with an error, which the SDKs read as text. Of a bug the reply says nothing.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f, known := fault.Of(err)
	if !known {
		h.opts.Bug(w, r, err)
	}
	h.fail(w, f.Status, f.Message)
}

func (h *Handler) fail(w http.ResponseWriter, status int, text string) {
	stream.Patience(w, h.opts.WriteLimit)
	http.Error(w, text, status)
}

// maxBody is the largest body of a request, in bytes.
const maxBody = 8 << 20

// A request is the body of all calls.
type request struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Cwd      string            `json:"cwd"`
	Env      map[string]string `json:"env_vars"`
}

func (h *Handler) decode(w http.ResponseWriter, r *http.Request) (q request, err error) {
	text, err := h.opts.Read(w, r, maxBody)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		err = fault.New(http.StatusBadRequest, "the request's body: "+err.Error())
	}
	return q, err
}

// A contextReply is a context on the wire.
type contextReply struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Cwd      string `json:"cwd"`
}

// cwd returns where kernels start that a request gives no directory: E2B has the home of its user.
func (b *Box) cwd() string {
	if s := b.Sandbox(); s.RunAs == "" && s.Home != "" {
		return s.Home
	}
	return b.Sandbox().MountPoint
}

func (b *Box) describe(c *code.Context) contextReply { return contextReply{c.ID, c.Language, c.Cwd} }

func (h *Handler) create(w http.ResponseWriter, r *http.Request, b *Box) (any, error) {
	q, err := h.decode(w, r)
	if err != nil {
		return nil, err
	}
	if q.Cwd == "" {
		q.Cwd = b.cwd()
	}
	kernels, box := b.Kernels()
	c, err := kernels.Create(r.Context(), box, q.Language, q.Cwd)
	if err != nil {
		return nil, err
	}
	return b.describe(c), nil
}

// list serves GET /contexts. The default contexts of two languages exist from the start.
func (h *Handler) list(_ http.ResponseWriter, _ *http.Request, b *Box) (any, error) {
	kernels, box := b.Kernels()
	var own, first []contextReply
	for _, language := range []string{code.Python, code.JavaScript} {
		if _, err := kernels.Get(box.ID, code.DefaultID(language)); err != nil {
			first = append(first, contextReply{code.DefaultID(language), language, b.cwd()})
		}
	}
	for _, c := range kernels.List(box.ID) {
		own = append(own, b.describe(c))
	}
	return append(first, own...), nil
}

// context returns the context that a request names.
func (b *Box) context(id string) (*code.Context, error) {
	kernels, box := b.Kernels()
	if language, is := strings.CutPrefix(id, code.DefaultID("")); is {
		return kernels.Default(box, language, b.cwd())
	}
	return kernels.Get(box.ID, id)
}

func (h *Handler) restart(_ http.ResponseWriter, r *http.Request, b *Box) (any, error) {
	c, err := b.context(r.PathValue("id"))
	if err != nil {
		return nil, notFound(err, r.PathValue("id"))
	}
	return struct{}{}, c.Restart(r.Context())
}

func (h *Handler) remove(w http.ResponseWriter, r *http.Request, b *Box) (any, error) {
	kernels, box := b.Kernels()
	if err := kernels.Remove(box.ID, r.PathValue("id")); err != nil {
		return nil, notFound(err, r.PathValue("id"))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// notFound gives the error for a context that does not exist E2B's words.
func notFound(err error, id string) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return fault.New(http.StatusNotFound, "Context "+id+" not found")
	}
	return err
}

// execute serves POST /execute: events as lines of JSON. If the client goes the cell is interrupted.
func (h *Handler) execute(w http.ResponseWriter, r *http.Request, b *Box) (any, error) {
	q, err := h.decode(w, r)
	switch {
	case err != nil:
		return nil, err
	case q.Context != "" && q.Language != "":
		return nil, fault.New(http.StatusBadRequest, "only one of context_id and language can be given")
	}
	id := q.Context
	if id == "" {
		id = code.DefaultID(q.Language)
	}
	c, err := b.context(id)
	if err != nil {
		return nil, notFound(err, id)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	to := stream.NewLive(w, h.opts.WriteLimit, event{Type: "keepalive"}, cancel)
	err = c.Run(ctx, code.Cell{Code: q.Code, Env: q.Env, Cwd: q.Cwd}, func(e *code.Event) error { return to.Send(eventOf(e)) })
	switch {
	case err == nil:
		to.Last(event{Type: "end_of_execution"})
	case to.Leave(): // nothing was sent
		return nil, notFound(err, id)
	default:
		to.Over()
		panic(http.ErrAbortHandler) // the client sees that the reply is not complete, and asks whether the sandbox runs
	}
	return nil, nil
}
