package opensandbox

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

type snapshotRequest struct {
	Name string `json:"name"`
}

// A snapshotReply is a snapshot on the wire.
type snapshotReply struct {
	ID        string      `json:"id"`
	SandboxID string      `json:"sandboxId"`
	Name      string      `json:"name,omitempty"`
	Status    statusReply `json:"status"`
	CreatedAt time.Time   `json:"createdAt"`
}

// A snapshotsReply is a page of a list.
type snapshotsReply struct {
	Items      []snapshotReply `json:"items"`
	Pagination pagination      `json:"pagination"`
}

// snapshotReady is the state of all snapshots: a call that makes one returns when it is complete.
const snapshotReady = "Ready"

func snapshotOf(n *service.Snapshot) snapshotReply {
	ready := statusReply{State: snapshotReady, Reason: "snapshot_ready"}
	return snapshotReply{n.ID, n.SandboxID, n.Name, ready, n.CreatedAt.UTC()}
}

// createSnapshot serves POST /v1/sandboxes/{id}/snapshots.
func (h *Handler) createSnapshot(w http.ResponseWriter, r *http.Request) error {
	var req snapshotRequest
	if r.ContentLength != 0 {
		if err := h.decode(w, r, smallBody, &req); err != nil {
			return err
		}
	}
	review, err := h.service.Review(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	made, err := review.Keep(r.Context(), req.Name, true)
	if errors.Is(err, runtime.ErrUnsupported) {
		return unsupported("snapshots: %v; see also createSnapshot of the calls below /api/v1/", err)
	}
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusAccepted, snapshotOf(made))
	return nil
}

// getSnapshot serves GET /v1/snapshots/{snapshot}.
func (h *Handler) getSnapshot(w http.ResponseWriter, r *http.Request) error {
	n, err := h.service.GetSnapshot(r.Context(), service.CallerOf(r.Context()), r.PathValue("snapshot"))
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, snapshotOf(n))
	return nil
}

// removeSnapshot serves DELETE /v1/snapshots/{snapshot}.
func (h *Handler) removeSnapshot(w http.ResponseWriter, r *http.Request) error {
	if err := h.service.DestroySnapshot(r.Context(), service.CallerOf(r.Context()), r.PathValue("snapshot")); err != nil {
		return err
	}
	h.empty(w, http.StatusNoContent)
	return nil
}

// listSnapshots serves GET /v1/snapshots.
func (h *Handler) listSnapshots(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page, size, err := pageOf(q)
	if err != nil {
		return err
	}
	all, err := h.service.Snapshots(r.Context(), service.CallerOf(r.Context()))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(n *service.Snapshot) bool {
		return q.Has("sandboxId") && n.SandboxID != q.Get("sandboxId") || q.Has("name") && n.Name != q.Get("name") ||
			q.Has("state") && !slices.Contains(q["state"], snapshotReady)
	})
	reply := snapshotsReply{Items: []snapshotReply{}}
	begin, end, pages := paged(len(all), page, size)
	reply.Pagination = pages
	for _, n := range all[begin:end] {
		reply.Items = append(reply.Items, snapshotOf(n))
	}
	h.opts.JSON(w, http.StatusOK, reply)
	return nil
}

type forkRequest struct {
	Timeout *int64 `json:"timeout"` // seconds; nil: as long as the sandbox was given
}

// fork serves POST /v1/sandboxes/{id}/fork: it returns when the copy runs.
func (h *Handler) fork(w http.ResponseWriter, r *http.Request) error {
	var req forkRequest
	if r.ContentLength != 0 {
		if err := h.decode(w, r, smallBody, &req); err != nil {
			return err
		}
	}
	ttl, err := lifetime(req.Timeout)
	if err != nil {
		return err
	}
	review, err := h.service.Review(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	made, err := review.ForkWhole(r.Context(), service.ForkOptions{TTL: ttl})
	if errors.Is(err, runtime.ErrUnsupported) {
		return unsupported("%v", err)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sandboxes/"+made[0].ID)
	h.opts.JSON(w, http.StatusAccepted, h.describe(made[0]))
	return nil
}
