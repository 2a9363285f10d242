package cow

import (
	"fmt"
	"io"
	"strings"

	"wolffia/runtime"
)

// maxText is the longest content that is compared by lines, in bytes.
const maxText = 4 << 20

// context is the number of equal lines around a difference.
const context = 3

// maxWrite is how much of a diff is written at once, in bytes, unless a file's part is longer.
const maxWrite = 64 << 10

// A pair is one file before and after, for a unified diff.
type pair struct {
	oldPath, newPath string // empty: the file does not exist
	oldMode, newMode uint32 // as git has it: 0100644, 0100755, 0120000
	old, new         []byte
	binary           bool
}

// Diff writes the changes at and below paths, or all changes if paths is empty, as a unified diff
// in git's notation. It omits changes that the rules do not allow, and changes that are never
// applied.
func (l *Layers) Diff(o runtime.DiffOptions, w io.Writer) error {
	p, err := l.reconciledPlan()
	if err != nil {
		return err
	}
	some, err := p.selected(o.Paths)
	if err != nil {
		return err
	}
	r := &reader{plan: p}
	var text []byte
	for _, c := range some {
		if err := l.stopped(); err != nil {
			return err
		}
		err := r.pairs(c, func(q *pair) (err error) {
			if text = q.append(text); len(text) >= maxWrite {
				_, err = w.Write(text)
				text = text[:0]
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err = w.Write(text)
	return err
}

// countLines fills in how many lines c adds and deletes.
func (r *reader) countLines(c *change) error {
	return r.pairs(c, func(q *pair) error {
		if q.binary {
			c.Binary = true
			return nil
		}
		v := windowOf(q.old, q.new)
		for _, e := range compareLines(v.a, v.b) {
			c.Added += e.d - e.c
			c.Deleted += e.b - e.a
		}
		return nil
	})
}

func (q *pair) append(text []byte) []byte {
	from, to := q.oldPath, q.newPath
	if from == "" {
		from = to
	}
	if to == "" {
		to = from
	}
	var v window
	if !q.binary {
		v = windowOf(q.old, q.new)
	}
	edits := compareLines(v.a, v.b)
	if q.oldPath == q.newPath && q.oldMode == q.newMode && len(edits) == 0 && !q.binary {
		return text // other permissions, which git does not have
	}
	text = fmt.Appendf(text, "diff --git %s %s\n", Quote("a/"+from), Quote("b/"+to))
	switch {
	case q.oldPath == "":
		text = fmt.Appendf(text, "new file mode %06o\n", q.newMode)
	case q.newPath == "":
		text = fmt.Appendf(text, "deleted file mode %06o\n", q.oldMode)
	default:
		if q.oldMode != q.newMode {
			text = fmt.Appendf(text, "old mode %06o\nnew mode %06o\n", q.oldMode, q.newMode)
		}
		if from != to {
			if len(q.old)+len(q.new) == 0 && !q.binary {
				text = append(text, "similarity index 100%\n"...)
			}
			text = fmt.Appendf(text, "rename from %s\nrename to %s\n", Quote(from), Quote(to))
		}
	}
	side := func(prefix, p string) string {
		if p == "" {
			return "/dev/null"
		}
		p = Quote(prefix + p)
		if strings.Contains(p, " ") && p[0] != '"' {
			p += "\t" // so that readers find the end of the name
		}
		return p
	}
	if q.binary {
		return fmt.Appendf(text, "Binary files %s and %s differ\n", strings.TrimSuffix(side("a/", q.oldPath), "\t"), strings.TrimSuffix(side("b/", q.newPath), "\t"))
	}
	if len(edits) == 0 {
		return text
	}
	text = fmt.Appendf(text, "--- %s\n+++ %s\n", side("a/", q.oldPath), side("b/", q.newPath))
	for _, hunk := range groups(edits) {
		text = v.appendHunk(text, hunk)
	}
	return text
}

// appendHunk appends edits and the lines around them to text.
func (v *window) appendHunk(text []byte, edits []edit) []byte {
	first, last := edits[0], edits[len(edits)-1]
	before := min(context, first.a)
	after := min(context, len(v.a)-last.b)
	start, end := first.a-before, last.b+after
	text = fmt.Appendf(text, "@@ -%s +%s @@\n", span(v.first+start, end-start), span(v.first+first.c-before, last.d+after-first.c+before))
	put := func(mark byte, lines [][]byte) {
		for _, l := range lines {
			text = append(append(text, mark), l...)
			if l[len(l)-1] != '\n' {
				text = append(text, "\n\\ No newline at end of file\n"...)
			}
		}
	}
	at := start
	for _, e := range edits {
		put(' ', v.a[at:e.a])
		put('-', v.a[e.a:e.b])
		put('+', v.b[e.c:e.d])
		at = e.b
	}
	put(' ', v.a[at:end])
	return text
}

// span returns a range of lines of a hunk. Its first line counts from 1, or from 0 for an empty
// range.
func span(start, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}
