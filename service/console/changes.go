package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"wolffia/runtime"
	"wolffia/service"
)

// The bounds of replies about changes.
const (
	maxChanges = 20_000
	maxDiff    = 4 << 20 // bytes of one file's diff
)

// paths returns the paths that a query names.
func (c *call) paths() ([]string, error) {
	q := c.URL.Query()
	paths := slices.Clone(q["path"])
	for _, text := range q["path64"] {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "path64 %.100q: it is not base64", text)
		}
		paths = append(paths, string(b))
	}
	return paths, nil
}

// path returns the path that a query names; empty: none.
func (c *call) path() (string, error) {
	paths, err := c.paths()
	if len(paths) > 1 {
		return "", runtime.Errorf(runtime.ErrInvalid, "the request names %d paths: name one", len(paths))
	}
	return strings.Join(paths, ""), err
}

func (h *Handler) review(c *call) (*service.Review, error) {
	return h.opts.Service.Review(c.Context(), c.caller, c.id)
}

func (h *Handler) changes(c *call) (any, error) {
	limit, err := c.number("limit", 5000, 1, maxChanges)
	if err != nil {
		return nil, err
	}
	paths, err := c.paths()
	if err != nil {
		return nil, err
	}
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	all, err := v.Changes(c.Context(), runtime.ChangesOptions{Paths: paths, Lines: true})
	if err != nil {
		return nil, err
	}
	n := min(len(all), int(limit))
	return map[string]any{"changes": append([]runtime.Change{}, all[:n]...), "more": len(all) - n}, nil
}

// A shownDiff is what the page shows of one change.
type shownDiff struct {
	Change    runtime.Change `json:"change"`
	Digest    string         `json:"digest"` // of the diff: a selection of hunks is of this one
	Binary    bool           `json:"binary"`
	Truncated bool           `json:"truncated"`
	Hunks     []hunk         `json:"hunks"`
	CanHunks  bool           `json:"canHunks"`
	Why       string         `json:"why,omitempty"` // CanHunks is false
}

func (h *Handler) diff(c *call) (any, error) {
	paths, err := c.paths()
	if err != nil {
		return nil, err
	}
	if len(paths) != 1 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the request must name one path, as path or path64")
	}
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	all, err := v.Changes(c.Context(), runtime.ChangesOptions{Paths: paths, Lines: true})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(ch runtime.Change) bool { return ch.Path == paths[0] })
	if i < 0 {
		return nil, runtime.Errorf(runtime.ErrNotFound, "there is no change at %.300q itself", paths[0])
	}
	text, more, err := v.Diff(c.Context(), runtime.DiffOptions{Paths: paths}, maxDiff)
	if err != nil {
		return nil, err
	}
	s := shownDiff{Change: all[i], Digest: digestOf(text), Binary: all[i].Binary, Truncated: more}
	s.Hunks = append([]hunk{}, hunksOf(text)...)
	s.Why = whole(&s)
	s.CanHunks = s.Why == ""
	return s, nil
}

// digestOf identifies a diff.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// whole returns why a change can be applied as a whole only; empty: its hunks can be, too.
func whole(s *shownDiff) string {
	switch {
	case s.Change.Kind != runtime.ChangeModified || s.Change.Type != runtime.TypeFile:
		return "only changes of the content of files have hunks"
	case s.Binary:
		return "the file is not text"
	case s.Truncated:
		return "the diff is too long"
	case s.Change.Conflict != "" || s.Change.Denied != "" || s.Change.Unapplied != "":
		return "the change cannot be applied"
	case len(s.Hunks) == 0:
		return "the content is the same"
	}
	return ""
}

// A selection is what is to be applied or discarded; nothing means all.
type selection struct {
	Paths   []string `json:"paths"`
	Paths64 [][]byte `json:"paths64"`
	Hunks   []chosen `json:"hunks"`
	DryRun  bool     `json:"dryRun"`
	Force   bool     `json:"force"`
}

// A chosen is some hunks of a change.
type chosen struct {
	Path   string `json:"path"`
	Path64 []byte `json:"path64"` // in its place, if it is not UTF-8
	Digest string `json:"digest"` // as of shownDiff
	Hunks  []int  `json:"hunks"`  // from 0 on
}

func (s *chosen) path() string {
	if s.Path64 != nil {
		return string(s.Path64)
	}
	return s.Path
}

func (s *selection) paths() []string {
	all := s.Paths
	for _, p := range s.Paths64 {
		all = append(all, string(p))
	}
	return all
}

// An applied is what an apply did, also one that failed.
type applied struct {
	Applied     []runtime.Change `json:"applied"`
	AppliedMore int              `json:"appliedMore,omitempty"` // how many are left out of the list
	Left        []runtime.Change `json:"left"`
	LeftMore    int              `json:"leftMore,omitempty"`
}

func apply(h *Handler, c *call, q *selection) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	o := runtime.ApplyOptions{Paths: q.paths(), DryRun: q.DryRun, Force: q.Force}
	for i := range q.Hunks {
		s := &q.Hunks[i]
		o.Hunks = append(o.Hunks, runtime.Hunks{Path: s.path(), Digest: s.Digest, Only: s.Hunks})
	}
	done, err := v.Apply(c.Context(), o)
	if done == nil {
		return nil, err
	}
	some := func(all []runtime.Change) ([]runtime.Change, int) {
		n := min(len(all), maxChanges)
		return append([]runtime.Change{}, all[:n]...), len(all) - n
	}
	reply := &applied{}
	reply.Applied, reply.AppliedMore = some(done.Applied)
	reply.Left, reply.LeftMore = some(done.Left)
	if err != nil {
		return nil, &partial{err, reply}
	}
	return reply, nil
}

func discard(h *Handler, c *call, q *selection) (any, error) {
	v, err := h.review(c)
	if err != nil {
		return nil, err
	}
	n, paths := 0, q.paths()
	if len(paths) > 0 || len(q.Hunks) == 0 {
		if n, err = v.Discard(c.Context(), paths); err != nil {
			return nil, err
		}
	}
	for i := range q.Hunks {
		if err := h.discardHunks(c, v, &q.Hunks[i]); err != nil {
			return nil, err
		}
		n++
		v.Discarded(c.Context(), 1, []string{q.Hunks[i].path()})
	}
	return map[string]int{"discarded": n}, nil
}

// discardHunks takes some hunks of a change back: a process inside writes the file without them.
func (h *Handler) discardHunks(c *call, v *service.Review, s *chosen) error {
	text, more, err := v.Diff(c.Context(), runtime.DiffOptions{Paths: []string{s.path()}}, maxDiff)
	if err != nil {
		return err
	}
	if more || digestOf(text) != s.Digest {
		return runtime.Errorf(runtime.ErrConflict, "%.300q has changed since its diff was shown: look at it again", s.path())
	}
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err != nil {
		return err
	}
	files := in.Files()
	name, err := files.FilePath(s.path())
	if err != nil {
		return err
	}
	now, err := files.Whole(c.Context(), name)
	if err != nil {
		return err
	}
	without, err := revert(now, hunksOf(text), s.Hunks)
	if err != nil {
		return err
	}
	return files.Put(c.Context(), name, without, nil)
}
