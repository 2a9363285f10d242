package e2b

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// A snapshotReply is a snapshot. Its id is the template of sandboxes that go on from it.
type snapshotReply struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

func snapshotOf(n *service.Snapshot) snapshotReply {
	reply := snapshotReply{n.ID, []string{}}
	if n.Name != "" {
		reply.Names = []string{n.Name}
	}
	return reply
}

// snapshotID returns what a template's name is without its tag: of a snapshot, its id.
func snapshotID(template string) string { return strings.TrimSuffix(template, ":default") }

// isSnapshot reports whether the caller of ctx has a snapshot with an id.
func (h *Handler) isSnapshot(ctx context.Context, id string) bool {
	if !runtime.IsID(id) {
		return false
	}
	_, err := h.service.GetSnapshot(ctx, service.CallerOf(ctx), id)
	return err == nil
}

// createSnapshot serves POST /sandboxes/{id}/snapshots.
func (h *Handler) createSnapshot(w http.ResponseWriter, r *http.Request) error {
	req := struct {
		Name   string `json:"name"`
		Memory *bool  `json:"memory"` // nil: true
	}{}
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	review, err := h.service.Review(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	made, err := review.Keep(r.Context(), req.Name, req.Memory == nil || *req.Memory)
	switch {
	case errors.Is(err, runtime.ErrUnsupported):
		return fault.Unsupported("snapshots: %v", err)
	case err != nil:
		return err
	}
	h.reply(w, http.StatusCreated, snapshotOf(made))
	return nil
}

// listSnapshots serves GET /snapshots, newest first.
func (h *Handler) listSnapshots(w http.ResponseWriter, r *http.Request) error {
	q, err := gate.Query(r)
	if err != nil {
		return err
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return fault.Invalid("limit %q: it must be a number from 1 to %d", text, maxPage)
		}
	}
	all, err := h.service.Snapshots(r.Context(), service.CallerOf(r.Context()))
	if err != nil {
		return err
	}
	page, after := []snapshotReply{}, q.Get("nextToken") // the id of the last one of the page before
	for _, n := range all {
		name, id := q.Get("name"), q.Get("sandboxID")
		switch {
		case after != "":
			if n.ID == after {
				after = ""
			}
		case id != "" && n.SandboxID != id || name != "" && snapshotID(name) != n.Name && snapshotID(name) != n.ID:
		case len(page) == limit:
			w.Header().Set("X-Next-Token", page[limit-1].ID)
			h.reply(w, http.StatusOK, page)
			return nil
		default:
			page = append(page, snapshotOf(n))
		}
	}
	h.reply(w, http.StatusOK, page)
	return nil
}
