// Package agent serves the Model Context Protocol over a [service.Service]. Agents that connect
// to a path of its listener have the tools of package mcp in the sandboxes of their owners.
package agent

import (
	"context"
	"encoding/json"
	"net/http"

	"wolffia/mcp"
	"wolffia/service"
	"wolffia/service/gate"
)

// Options are what a Handler needs. All fields but Limits and Copied are required.
type Options struct {
	// Runtime is that of Service.
	Runtime service.Runtime
	Service *service.Service
	// Allow, AllowHost and Version are as in [mcp.Options].
	Allow, AllowHost func(sandboxID string) string
	Version          string
	// Copied says that new sandboxes have a copied codebase.
	Copied bool
	// Limits are the limits of sessions; nil means the defaults.
	Limits *mcp.HandlerOptions
}

// A Handler is the [http.Handler] of the protocol. A request's context has its caller: see
// [service.WithCaller]. It is safe for concurrent use.
type Handler struct {
	opts Options
	mcp  *mcp.Handler
}

// New returns a handler. The caller closes it before the service.
func New(o *Options) *Handler { return &Handler{*o, mcp.NewHandler(o.Limits)} }

// Drain begins no more sessions, and ends the requests that only wait for messages.
func (h *Handler) Drain() { h.mcp.Drain() }

// Close interrupts what runs in sessions, and ends them. Sandboxes keep running.
func (h *Handler) Close() { h.mcp.Close() }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Pattern = "/mcp" // for the log
	query, err := gate.Query(r)
	var at *target
	if err == nil {
		at, err = targetOf(query, service.CallerOf(r.Context()))
	}
	if err != nil {
		s, _ := gate.StatusOf(err) // it has one
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.HTTP)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": s.OpenSandbox, "message": err.Error()})
		return
	}
	h.mcp.Serve(w, r, &mcp.Client{Party: at.party(), Key: at.key(), Options: func() *mcp.Options { return h.session(r.Context(), at) }})
}

// session returns the options of a new session.
func (h *Handler) session(ctx context.Context, at *target) *mcp.Options {
	return &mcp.Options{
		Copied:  h.copied(ctx, at),
		Runtime: h.opts.Runtime, Session: at.session, Version: h.opts.Version, Allow: h.opts.Allow, AllowHost: h.opts.AllowHost, Remote: true,
		Open: func(ctx context.Context) (string, error) {
			return h.opts.Service.Named(ctx, at.caller, at.owner, at.sandbox)
		},
		Inspect: func(ctx context.Context, id string) (*mcp.Details, error) {
			c, err := h.opts.Service.Config(ctx, id)
			if err != nil {
				return nil, err
			}
			return &mcp.Details{Config: *c, Limits: h.opts.Service.Limits(id)}, nil
		},
	}
}

// copied reports whether the sandbox of a target has a copied codebase, or will have one.
func (h *Handler) copied(ctx context.Context, at *target) bool {
	if at.sandbox != "" {
		if s, err := h.opts.Service.Get(ctx, at.caller, at.sandbox); err == nil {
			return s.CopyOnWrite
		}
	} else if m, err := h.opts.Service.Owned().FindSandbox(ctx, at.owner); err == nil {
		if s, err := h.opts.Runtime.Get(ctx, m.SandboxID); err == nil {
			return s.CopyOnWrite
		}
	}
	return h.opts.Copied // it is to be made
}
