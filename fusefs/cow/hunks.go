package cow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"wolffia/runtime"
)

// A part is the content that is applied of a change in place of the sandbox's own.
type part struct{ content []byte }

// withHunks returns the changes that are selected by paths, and those of which only hunks are
// applied, whose parts it sets.
func (p *plan) withHunks(o *runtime.ApplyOptions) ([]*change, error) {
	var some []*change
	var err error
	if len(o.Paths) > 0 || len(o.Hunks) == 0 {
		if some, err = p.selected(o.Paths); err != nil {
			return nil, err
		}
	}
	for i := range o.Hunks {
		c, err := p.cut(&o.Hunks[i])
		if err != nil {
			return nil, err
		}
		if !slices.Contains(some, c) {
			some = append(some, c)
		}
	}
	return some, nil
}

// cut returns the change that hunks are of, with its part.
func (p *plan) cut(h *runtime.Hunks) (*change, error) {
	i := slices.IndexFunc(p.changes, func(c *change) bool { return c.Path == h.Path && c.Kind != "" })
	if i < 0 {
		return nil, runtime.Errorf(runtime.ErrNotFound, "%s: has no change", Quote(h.Path))
	}
	c := p.changes[i]
	if c.Kind != runtime.ChangeModified || c.Type != runtime.TypeFile {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: is no change of a file's content, which alone has hunks: apply all of it", Quote(h.Path))
	}
	var text []byte
	binary, count := false, 0
	r := &reader{plan: p}
	if err := r.pairs(c, func(q *pair) error {
		binary = q.binary
		text = q.append(text)
		if binary {
			return nil
		}
		v := windowOf(q.old, q.new)
		all := groups(compareLines(v.a, v.b))
		count = len(all)
		c.part = &part{v.only(q.old, all, h.Only)}
		return nil
	}); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	switch {
	case binary:
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: is not text, and has no hunks: apply all of it", Quote(h.Path))
	case hex.EncodeToString(sum[:]) != h.Digest:
		return nil, runtime.Errorf(runtime.ErrConflict, "%s: has changed since its diff was shown: look at it again", Quote(h.Path))
	case len(h.Only) == 0 || slices.ContainsFunc(h.Only, func(n int) bool { return n < 0 || n >= count }):
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: hunks %v: its diff has %d, from 0 on", Quote(h.Path), h.Only, count)
	}
	return c, nil
}

// groups returns edits as they are together in hunks.
func groups(edits []edit) (all [][]edit) {
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a-edits[n-1].b <= 2*context {
			n++
		}
		all = append(all, edits[:n])
		edits = edits[n:]
	}
	return all
}

// only returns the old text with some of the hunks of its window.
func (v *window) only(old []byte, all [][]edit, some []int) []byte {
	start := 0 // of the window, in bytes
	for range v.first {
		start += bytes.IndexByte(old[start:], '\n') + 1
	}
	text := slices.Clone(old[:start])
	at, length := 0, start
	put := func(lines [][]byte) {
		for _, l := range lines {
			text = append(text, l...)
		}
	}
	for i, edits := range all {
		for _, e := range edits {
			put(v.a[at:e.a])
			if slices.Contains(some, i) {
				put(v.b[e.c:e.d])
			} else {
				put(v.a[e.a:e.b])
			}
			at = e.b
		}
	}
	put(v.a[at:])
	for _, l := range v.a {
		length += len(l)
	}
	return append(text, old[length:]...)
}
