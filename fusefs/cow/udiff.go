package cow

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"wolffia/runtime"
)

// maxText is the longest content that is compared by lines, in bytes.
const maxText = 4 << 20

// context is the number of equal lines around a difference.
const context = 3

// A pair is one file before and after, for a unified diff.
type pair struct {
	oldPath, newPath string // empty: there is none
	oldMode, newMode uint32 // as git has it: 0100644, 0100755, 0120000
	old, new         []byte
	binary           bool
}

// Diff writes the changes at and below paths, all if there are none, as a unified diff in git's notation. It leaves
// out what the rules do not allow to change, and what is never applied.
func (l *Layers) Diff(o runtime.DiffOptions, w io.Writer) error {
	p, err := l.newPlan()
	if err != nil {
		return err
	}
	some, err := p.selected(o.Paths)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(w, 64<<10)
	for _, c := range some {
		if err := p.pairs(c, func(q *pair) error { return q.write(b) }); err != nil {
			return err
		}
	}
	return b.Flush()
}

// countLines fills in how many lines c adds and deletes.
func (p *plan) countLines(c *change) error {
	return p.pairs(c, func(q *pair) error {
		if q.binary {
			c.Binary = true
			return nil
		}
		for _, e := range compareLines(splitLines(q.old), splitLines(q.new)) {
			c.Added += e.d - e.c
			c.Deleted += e.b - e.a
		}
		return nil
	})
}

// write writes q.
func (q *pair) write(w *bufio.Writer) error {
	from, to := q.oldPath, q.newPath
	if from == "" {
		from = to
	}
	if to == "" {
		to = from
	}
	a, b := splitLines(q.old), splitLines(q.new)
	edits := compareLines(a, b)
	if q.oldPath == q.newPath && q.oldMode == q.newMode && len(edits) == 0 && !q.binary {
		return nil // other permissions, which git does not have
	}
	fmt.Fprintf(w, "diff --git %s %s\n", Quote("a/"+from), Quote("b/"+to))
	switch {
	case q.oldPath == "":
		fmt.Fprintf(w, "new file mode %06o\n", q.newMode)
	case q.newPath == "":
		fmt.Fprintf(w, "deleted file mode %06o\n", q.oldMode)
	default:
		if q.oldMode != q.newMode {
			fmt.Fprintf(w, "old mode %06o\nnew mode %06o\n", q.oldMode, q.newMode)
		}
		if from != to {
			if len(q.old)+len(q.new) == 0 && !q.binary {
				w.WriteString("similarity index 100%\n")
			}
			fmt.Fprintf(w, "rename from %s\nrename to %s\n", Quote(from), Quote(to))
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
		_, err := fmt.Fprintf(w, "Binary files %s and %s differ\n", strings.TrimSuffix(side("a/", q.oldPath), "\t"), strings.TrimSuffix(side("b/", q.newPath), "\t"))
		return err
	}
	if len(edits) == 0 {
		return nil
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n", side("a/", q.oldPath), side("b/", q.newPath))
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a-edits[n-1].b <= 2*context {
			n++
		}
		if err := writeHunk(w, a, b, edits[:n]); err != nil {
			return err
		}
		edits = edits[n:]
	}
	return nil
}

// writeHunk writes edits and the lines around them.
func writeHunk(w *bufio.Writer, a, b [][]byte, edits []edit) error {
	first, last := edits[0], edits[len(edits)-1]
	before := min(context, first.a)
	after := min(context, len(a)-last.b)
	start, end := first.a-before, last.b+after
	fmt.Fprintf(w, "@@ -%s +%s @@\n", span(start, end-start), span(first.c-before, last.d+after-first.c+before))
	put := func(mark byte, lines [][]byte) {
		for _, l := range lines {
			w.WriteByte(mark)
			w.Write(l)
			if l[len(l)-1] != '\n' {
				w.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	at := start
	for _, e := range edits {
		put(' ', a[at:e.a])
		put('-', a[e.a:e.b])
		put('+', b[e.c:e.d])
		at = e.b
	}
	put(' ', a[at:end])
	_, err := w.Write(nil)
	return err
}

// span returns a range of lines of a hunk; its first line counts from 1, or from 0 if there are none.
func span(start, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}
