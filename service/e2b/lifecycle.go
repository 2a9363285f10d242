package e2b

import (
	"errors"
	"net/http"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
)

// timeoutRequest is a body that says how long a sandbox is to live from now on, in seconds.
type timeoutRequest struct {
	Timeout  *int64 `json:"timeout"`
	Duration *int64 `json:"duration"` // of refreshes
}

// kill serves DELETE /sandboxes/{id}.
func (h *Handler) kill(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	err := h.envd.Leave(id, func() error { return h.service.Destroy(r.Context(), service.CallerOf(r.Context()), id) })
	if err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

// pause serves POST /sandboxes/{id}/pause.
func (h *Handler) pause(w http.ResponseWriter, r *http.Request) error {
	b, err := h.sandbox(r)
	switch {
	case err != nil:
		return err
	case stateOf(b) == paused:
		return fault.New(http.StatusConflict, "sandbox "+b.ID+" is paused already")
	}
	err = h.envd.Leave(b.ID, func() error { return h.service.Pause(r.Context(), service.CallerOf(r.Context()), b.ID) })
	if err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

// connect serves POST /v2/sandboxes/{id}/connect: it resumes a paused sandbox, and never shortens a
// lifetime.
func (h *Handler) connect(w http.ResponseWriter, r *http.Request) error {
	ttl, err := h.timeoutOf(w, r)
	if err != nil {
		return err
	}
	b, err := h.sandbox(r)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if stateOf(b) == paused {
		status = http.StatusCreated
	}
	if b, err = h.awake(r, service.CallerOf(r.Context()), b, ttl); err != nil {
		return err
	}
	h.reply(w, status, h.describe(r, b))
	return nil
}

// resume serves POST /sandboxes/{id}/resume.
func (h *Handler) resume(w http.ResponseWriter, r *http.Request) error {
	ttl, err := h.timeoutOf(w, r)
	if err != nil {
		return err
	}
	b, err := h.sandbox(r)
	switch {
	case err != nil:
		return err
	case stateOf(b) == running:
		return fault.New(http.StatusConflict, "sandbox "+b.ID+" runs already")
	}
	if b, err = h.awake(r, service.CallerOf(r.Context()), b, ttl); err != nil {
		return err
	}
	h.reply(w, http.StatusCreated, h.describe(r, b))
	return nil
}

// timeoutOf returns the lifetime of a request.
func (h *Handler) timeoutOf(w http.ResponseWriter, r *http.Request) (time.Duration, error) {
	var req timeoutRequest
	if err := h.decode(w, r, &req); err != nil {
		return 0, err
	}
	return lifetime(req.Timeout, defaultTimeout)
}

// awake starts a sandbox that is paused, and has it live for ttl from now on, if that is longer
// than it would.
func (h *Handler) awake(
	r *http.Request, caller service.Caller, b *service.Sandbox, ttl time.Duration,
) (*service.Sandbox, error) {
	until := time.Now().Add(ttl)
	switch {
	case stateOf(b) == paused:
		return h.service.Resume(r.Context(), caller, b.ID, until)
	case b.End().IsZero() || b.End().After(until):
		return b, nil
	}
	return h.service.Renew(r.Context(), caller, b.ID, until)
}

// setTimeout serves POST /sandboxes/{id}/timeout, which can also shorten a lifetime.
func (h *Handler) setTimeout(w http.ResponseWriter, r *http.Request) error {
	var req timeoutRequest
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	if req.Timeout == nil {
		return fault.Invalid("timeout: it is missing")
	}
	if *req.Timeout > int64(runtime.MaxLifetime/time.Second) {
		return fault.Invalid("timeout %d: the most are %d seconds", *req.Timeout, int64(runtime.MaxLifetime/time.Second))
	}
	b, err := h.sandbox(r)
	if err == nil && stateOf(b) == paused {
		return fault.New(http.StatusConflict, "sandbox "+b.ID+" is paused: connect to it")
	}
	if err == nil {
		ttl := max(time.Duration(*req.Timeout)*time.Second, runtime.MinLifetime)
		_, err = h.service.Renew(r.Context(), service.CallerOf(r.Context()), b.ID, time.Now().Add(ttl))
	}
	if err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

// refresh serves POST /sandboxes/{id}/refreshes, which never shortens a lifetime.
func (h *Handler) refresh(w http.ResponseWriter, r *http.Request) error {
	var req timeoutRequest
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	ttl, err := lifetime(req.Duration, forkTimeout)
	if err != nil {
		return err
	}
	b, err := h.sandbox(r)
	if err == nil && stateOf(b) == running {
		_, err = h.awake(r, service.CallerOf(r.Context()), b, ttl)
	}
	if err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

// A forkReply is one of the sandboxes that a fork has made. It makes all, or none.
type forkReply struct {
	Sandbox *sandboxReply `json:"sandbox,omitempty"`
}

// maxForks is how many sandboxes one request makes at most.
const maxForks = 20

// fork serves POST /sandboxes/{id}/fork.
func (h *Handler) fork(w http.ResponseWriter, r *http.Request) error {
	req := struct {
		timeoutRequest
		Count *int `json:"count"`
	}{}
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	ttl, err := lifetime(req.Timeout, forkTimeout)
	if err != nil {
		return err
	}
	count := 1
	if req.Count != nil {
		count = *req.Count
	}
	if count < 1 || count > maxForks {
		return fault.Invalid("count %d: it must be from 1 to %d", count, maxForks)
	}
	caller := service.CallerOf(r.Context())
	review, err := h.service.Review(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	all, err := review.ForkWhole(r.Context(), service.ForkOptions{Count: count, TTL: ttl})
	if errors.Is(err, runtime.ErrUnsupported) {
		return fault.Unsupported("%v", err)
	}
	if err != nil {
		return err
	}
	made := []forkReply{}
	for _, b := range all {
		made = append(made, forkReply{Sandbox: h.describe(r, b)})
	}
	h.reply(w, http.StatusCreated, made)
	return nil
}
