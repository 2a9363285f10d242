package server

import (
	"bufio"
	"context"

	"wolffia/internal/jsontext"
	"wolffia/runtime"
	"wolffia/service"
)

// The bounds of what calls on changes answer.
const (
	defaultChanges = 1000
	maxChanges     = 10000
	defaultDiff    = 1 << 20 // bytes
)

// A reviewRequest selects changes of a sandbox: those at and below the paths, all if there are none.
type reviewRequest struct {
	ownerRequest
	Paths   []string `json:"paths"`   // relative to the codebase
	Paths64 [][]byte `json:"paths64"` // more of them, that are not UTF-8
}

func (r *reviewRequest) paths() []string {
	all := r.Paths
	for _, p := range r.Paths64 {
		all = append(all, string(p))
	}
	return all
}

// firstOf returns at most most changes, and how many more there are.
func firstOf(all []runtime.Change, most int) (some []runtime.Change, more int) {
	n := min(len(all), most)
	return append([]runtime.Change{}, all[:n]...), len(all) - n
}

type changesRequest struct {
	reviewRequest
	Lines bool `json:"lines"` // count lines
	Limit int  `json:"limit"` // 0: 1000
}

type changesReply struct {
	Changes []runtime.Change `json:"changes"`
	More    int              `json:"more"` // how many are left out
}

func changes(ctx context.Context, v *service.Review, r *changesRequest) (any, error) {
	if r.Limit == 0 {
		r.Limit = defaultChanges
	}
	if r.Limit < 0 || r.Limit > maxChanges {
		return nil, runtime.Errorf(runtime.ErrInvalid, "limit %d: it must be from 1 to %d", r.Limit, maxChanges)
	}
	all, err := v.Changes(ctx, runtime.ChangesOptions{Paths: r.paths(), Lines: r.Lines})
	some, more := firstOf(all, r.Limit)
	return changesReply{some, more}, err
}

type diffRequest struct {
	reviewRequest
	MaxBytes int `json:"maxBytes"` // 0: 1 MiB
}

// A diffReply is the reply to diff: text if it is UTF-8.
type diffReply struct {
	text []byte
	more bool
}

func (d *diffReply) encode(w *bufio.Writer) error {
	if err := fileReply(d.text).begin(w); err != nil {
		return err
	}
	return encodeRest(w, struct {
		Truncated bool `json:"truncated"`
	}{d.more})
}

func diff(ctx context.Context, v *service.Review, r *diffRequest) (any, error) {
	if r.MaxBytes == 0 {
		r.MaxBytes = defaultDiff
	}
	text, more, err := v.Diff(ctx, runtime.DiffOptions{Paths: r.paths()}, r.MaxBytes)
	if more {
		text = text[:jsontext.WholeRunes(text)]
	}
	return &diffReply{text, more}, err
}

type applyRequest struct {
	reviewRequest
	DryRun bool `json:"dryRun"`
	Force  bool `json:"force"`
}

// An applyReply is also the result of an apply that was refused, or failed.
type applyReply struct {
	Applied     []runtime.Change `json:"applied"`
	AppliedMore int              `json:"appliedMore,omitempty"` // how many are left out of the list
	Left        []runtime.Change `json:"left"`
	LeftMore    int              `json:"leftMore,omitempty"`
}

func applyChanges(ctx context.Context, v *service.Review, r *applyRequest) (any, error) {
	done, err := v.Apply(ctx, runtime.ApplyOptions{Paths: r.paths(), DryRun: r.DryRun, Force: r.Force})
	if done == nil {
		return nil, err
	}
	reply := &applyReply{}
	reply.Applied, reply.AppliedMore = firstOf(done.Applied, maxChanges)
	reply.Left, reply.LeftMore = firstOf(done.Left, maxChanges)
	if err != nil {
		err = &someError{err, reply}
	}
	return reply, err
}

type discardReply struct {
	Discarded int `json:"discarded"`
}

func discardChanges(ctx context.Context, v *service.Review, r *reviewRequest) (any, error) {
	n, err := v.Discard(ctx, r.paths())
	return discardReply{n}, err
}

type forkRequest struct {
	ownerRequest
	Memory bool `json:"memory"` // fork the processes too
	Count  int  `json:"count"`  // 0: 1
}

// A forked is a sandbox that was forked.
type forked struct {
	SandboxID string `json:"sandboxId"`
	CreatedAt int64  `json:"createdAt"` // ms since 1970
}

// A forkReply is the reply to forkSandbox: the first fork, and all.
type forkReply struct {
	forked
	Sandboxes []forked `json:"sandboxes"`
}

func forkSandbox(ctx context.Context, v *service.Review, r *forkRequest) (any, error) {
	if r.Count < 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "count %d: it must be from 1 to %d", r.Count, runtime.MaxForks)
	}
	made, err := v.Fork(ctx, service.ForkOptions{Memory: r.Memory, Count: r.Count})
	if err != nil {
		return nil, err
	}
	var reply forkReply
	for _, b := range made {
		reply.Sandboxes = append(reply.Sandboxes, forked{b.ID, b.CreatedAt.UnixMilli()})
	}
	reply.forked = reply.Sandboxes[0]
	return reply, nil
}

type snapshotRequest struct {
	ownerRequest
	Snapshot string `json:"snapshot"` // its name
}

type createSnapshotRequest struct {
	snapshotRequest
	Memory bool `json:"memory"` // keep the processes too
}

type snapshotReply struct {
	Snapshot string `json:"snapshot"`
}

func createSnapshot(ctx context.Context, v *service.Review, r *createSnapshotRequest) (any, error) {
	made, err := v.Snapshot(ctx, r.Snapshot, runtime.SnapshotOptions{Memory: r.Memory})
	return made, err
}

type snapshotsReply struct {
	Snapshots []runtime.Snapshot `json:"snapshots"`
}

func listSnapshots(ctx context.Context, v *service.Review, _ *ownerRequest) (any, error) {
	all, err := v.Snapshots(ctx)
	return snapshotsReply{append([]runtime.Snapshot{}, all...)}, err
}

func restoreSnapshot(ctx context.Context, v *service.Review, r *snapshotRequest) (any, error) {
	return snapshotReply{r.Snapshot}, v.Restore(ctx, r.Snapshot)
}

func removeSnapshot(ctx context.Context, v *service.Review, r *snapshotRequest) (any, error) {
	return snapshotReply{r.Snapshot}, v.RemoveSnapshot(ctx, r.Snapshot)
}
