package console

import (
	"context"

	"wolffia/runtime"
	"wolffia/service"
)

func (h *Handler) snapshots(c *call) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	all, err := v.Snapshots(c.Context())
	return map[string]any{"snapshots": append([]runtime.Snapshot{}, all...)}, err
}

type snapshotRequest struct {
	Name   string `json:"name"`
	Memory bool   `json:"memory"` // keep the processes too
}

func snapshot(h *Handler, c *call, q *snapshotRequest) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	made, err := v.Snapshot(c.Context(), q.Name, runtime.SnapshotOptions{Memory: q.Memory})
	return made, err
}

func restoreSnapshot(h *Handler, c *call, q *snapshotRequest) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	return nothing{}, v.Restore(c.Context(), q.Name)
}

func removeSnapshot(h *Handler, c *call, q *snapshotRequest) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	return nothing{}, v.RemoveSnapshot(c.Context(), q.Name)
}

type forkRequest struct {
	Count  int  `json:"count"`  // 0: 1
	Memory bool `json:"memory"` // fork the processes too
}

func fork(h *Handler, c *call, q *forkRequest) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	if q.Count < 0 || q.Count > runtime.MaxForks {
		return nil, runtime.Errorf(runtime.ErrInvalid, "count %d: it must be from 1 to %d", q.Count, runtime.MaxForks)
	}
	made, err := v.Fork(c.Context(), service.ForkOptions{Memory: q.Memory, Count: q.Count})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(made))
	for i, b := range made {
		ids[i] = b.ID
	}
	h.hub.look()
	return map[string]any{"sandboxes": ids}, nil
}

// Commits are the commits of sandboxes with a copied codebase. It is safe for concurrent use.
type Commits interface {
	// Ahead returns the repositories of a sandbox, which must run.
	Ahead(ctx context.Context, sandboxID string) ([]Repository, error)
	// Export makes branches of the host of the commits of a repository, or says with dry which.
	Export(ctx context.Context, sandboxID, dir, branch string, dry bool) ([]Branch, error)
}

// A Repository is one of a copied codebase.
type Repository struct {
	Dir    string `json:"dir"`    // relative to the codebase; empty: its top
	Ahead  int    `json:"ahead"`  // commits that the host does not have
	Hosted bool   `json:"hosted"` // the host has a repository there
}

// A Branch is one that was made of the sandbox's commits.
type Branch struct {
	Name string `json:"name"`
	At   string `json:"at"` // the commit
}

// committer returns what takes commits, for a caller who may change the host's repository.
func (h *Handler) committer(c *call) (Commits, error) {
	if h.opts.Commits == nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this console takes no commits: wolffia apply --git does")
	}
	_, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	return h.opts.Commits, err
}

func (h *Handler) commits(c *call) (any, error) {
	of, err := h.committer(c)
	if err != nil {
		return nil, err
	}
	all, err := of.Ahead(c.Context(), c.id)
	return map[string]any{"repositories": append([]Repository{}, all...)}, err
}

type exportRequest struct {
	Dir    string `json:"dir"`
	Branch string `json:"branch"` // empty: all, as wolffia/SANDBOX/BRANCH
	DryRun bool   `json:"dryRun"`
}

func exportCommits(h *Handler, c *call, q *exportRequest) (any, error) {
	of, err := h.committer(c)
	if err != nil {
		return nil, err
	}
	if !q.DryRun && !h.watch.AppliesChanges() {
		return nil, runtime.Errorf(runtime.ErrDenied, "this service does not change the host's directory for its callers: start it with --allow-apply")
	}
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	made, err := of.Export(c.Context(), c.id, q.Dir, q.Branch, q.DryRun)
	if len(made) > 0 && !q.DryRun {
		var names []string
		for _, b := range made {
			names = append(names, b.Name+" "+b.At)
		}
		v.Exported(c.Context(), names)
	}
	return map[string]any{"branches": append([]Branch{}, made...)}, err
}
