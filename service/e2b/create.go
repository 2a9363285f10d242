package e2b

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/registry"
)

// A createRequest is the body of POST /v2/sandboxes, and of POST /sandboxes.
type createRequest struct {
	Template   string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"` // seconds
	Metadata   map[string]string `json:"metadata"`
	Env        map[string]string `json:"envVars"`
	AutoPause  bool              `json:"autoPause"`
	AutoResume *struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Volumes []volumeMount `json:"volumeMounts"`
	IAM     *struct {
		Tokens map[string]any `json:"tokens"`
	} `json:"iam"`
	reach
}

// The lifetimes of sandboxes without a timeout, of E2B.
const (
	defaultTimeout = 300 * time.Second
	forkTimeout    = 15 * time.Second
)

// lifetime returns a lifetime in seconds.
func lifetime(seconds *int64, byDefault time.Duration) (time.Duration, error) {
	switch {
	case seconds == nil:
		return byDefault, nil
	case *seconds < 1 || *seconds > int64(runtime.MaxLifetime/time.Second):
		return 0, fault.Invalid("timeout %d: it must be from 1 to %d seconds", *seconds, int64(runtime.MaxLifetime/time.Second))
	}
	return time.Duration(*seconds) * time.Second, nil
}

// params returns what a request of an owner asks for.
func (h *Handler) params(ctx context.Context, q *createRequest, o registry.Owner) (p *service.Params, err error) {
	n := note{Template: q.Template, Volumes: q.Volumes, AutoResume: q.AutoResume != nil && q.AutoResume.Enabled}
	p = &service.Params{Owner: o, UserName: "user", Env: q.Env, Metadata: q.Metadata, EndsStopped: q.AutoPause}
	if id := snapshotID(q.Template); h.isSnapshot(ctx, id) {
		p.Snapshot = id
	} else if p.Image, err = h.imageOf(o, q.Template); err != nil {
		return nil, err
	}
	p.Stored = p.Image != ""
	switch {
	case q.IAM != nil && len(q.IAM.Tokens) > 0:
		return nil, fault.Invalid("iam: the service gives sandboxes no identity")
	case n.AutoResume && !q.AutoPause:
		return nil, fault.Invalid("autoResume: it needs autoPause")
	}
	for k := range q.Metadata {
		if strings.HasPrefix(k, "wolffia.") {
			return nil, fault.Invalid("metadata %q: keys that begin with wolffia. are reserved", k)
		}
	}
	if p.TTL, err = lifetime(q.Timeout, defaultTimeout); err != nil {
		return nil, err
	}
	if p.Network, p.Egress, err = q.reach.of(); err != nil {
		return nil, err
	}
	n.Internet, n.Network = q.Internet, q.Network
	n.Private = q.Network != nil && q.Network.Public != nil && !*q.Network.Public
	p.Note, err = n.text()
	return p, err
}

var errNoInternet = fault.Invalid("allow_internet_access: this service gives its sandboxes no network: " +
	"name hosts in network.allowOut, or start it with wolffia serve --allow-host NAME")

// create serves POST /v2/sandboxes and POST /sandboxes.
func (h *Handler) create(w http.ResponseWriter, r *http.Request) error {
	var req createRequest
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	caller := service.CallerOf(r.Context())
	params, err := h.params(r.Context(), &req, owner(caller))
	if err != nil {
		return err
	}
	if params.Key = r.Header.Get("Idempotency-Key"); len(params.Key) > 255 {
		return fault.Invalid("Idempotency-Key: more than 255 bytes")
	}
	readyCommand := h.begin(params)
	if params.Refine, err = h.mount(req.Volumes, params.Owner); err != nil {
		return err
	}
	if params.Refine != nil {
		params.SandboxID = runtime.NewID() // no pooled sandbox has volumes
	}
	b, _, err := h.service.Create(r.Context(), params)
	switch {
	case errors.Is(err, runtime.ErrNotFound) && params.Image != "":
		return fault.New(http.StatusNotFound, "templateID: neither base nor an image of this host: "+err.Error())
	case errors.Is(err, runtime.ErrDenied):
		return fault.Invalid("%v", err)
	case err != nil:
		return err
	}
	if req.Internet != nil && *req.Internet && params.Network == "" && b.Network == runtime.NetworkNone {
		return errors.Join(errNoInternet, h.service.Destroy(context.WithoutCancel(r.Context()), caller, b.ID))
	}
	if err := h.awaitReady(r.Context(), b, readyCommand); err != nil {
		return errors.Join(err, h.service.Destroy(context.WithoutCancel(r.Context()), caller, b.ID))
	}
	h.reply(w, http.StatusCreated, h.describe(r, b))
	return nil
}
