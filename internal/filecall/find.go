package filecall

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"wolffia/internal/archive"
)

// directory returns the real path of the directory at path.
func directory(name string) (string, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(real)
	if err == nil && !st.IsDir() {
		err = errorf(KindNotDir, "not a directory")
	}
	return real, err
}

// A walk visits what is below a directory, in the order of names, and follows no symbolic link.
type walk struct {
	res     *Reply
	bytes   int // what the response may still have
	entries int // how many
	visited int
}

func newWalk(req *Request, res *Reply) *walk {
	return &walk{res: res, bytes: req.MaxBytes, entries: req.Max}
}

// take reports whether the response has space for one entry more, of that many bytes.
func (w *walk) take(size int) bool {
	if w.entries--; w.entries < 0 || w.bytes < size {
		w.res.Truncated = true
		return false
	}
	w.bytes -= size
	return true
}

// each calls visit with the paths below root, relative to it. What cannot be read is counted.
func (w *walk) each(root string, visit func(rel string, d fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if w.visited++; w.visited > maxVisited {
			w.res.Truncated = true
			return fs.SkipAll
		}
		if err != nil {
			if name == root {
				return err
			}
			w.res.Skipped++
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		return visit(rel, d)
	})
}

// tree lists a directory for an agent's tool.
func tree(req *Request, res *Reply) error {
	root, err := directory(req.Path)
	if err != nil {
		return err
	}
	res.Path = root
	w := newWalk(req, res)
	return w.each(root, func(rel string, d fs.DirEntry) error {
		e := Entry{Name: rel, Type: typeOf(d)}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			e.Size = info.Size()
		}
		if e.Type == "link" {
			e.Target, _ = os.Readlink(filepath.Join(root, rel))
		}
		if !w.take(len(rel) + len(e.Target) + 32) {
			return fs.SkipAll
		}
		res.Entries = append(res.Entries, e)
		if d.IsDir() && (d.Name() == ".git" || strings.Count(rel, "/")+1 >= max(req.Depth, 1)) {
			return fs.SkipDir
		}
		return nil
	})
}

func typeOf(d fs.DirEntry) string {
	switch d.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "link"
	}
	return "other"
}

// checkPattern returns an error about a pattern of Glob that is malformed.
func checkPattern(pattern string) error {
	if pattern == "" || !doublestar.ValidatePattern(pattern) {
		return errorf(KindInvalid, "pattern %q: it must be like **/*.go or src/**/*.{ts,tsx}", pattern)
	}
	return nil
}

// below reports whether the walk of a pattern has to enter a directory named .git.
func below(pattern string) bool { return strings.Contains(pattern, ".git") }

func glob(req *Request, res *Reply) error {
	if err := checkPattern(req.Pattern); err != nil {
		return err
	}
	base, pattern := doublestar.SplitPattern(req.Pattern)
	from := req.Path
	switch {
	case path.IsAbs(req.Pattern):
		from = base
	case base != ".":
		from = path.Join(req.Path, base)
	}
	root, err := directory(from)
	if err != nil {
		return err
	}
	res.Path = root
	w := newWalk(req, res)
	git := below(req.Pattern) || below(from)
	return w.each(root, func(rel string, d fs.DirEntry) error {
		if d.IsDir() {
			if d.Name() == ".git" && !git {
				return fs.SkipDir
			}
			return nil
		}
		if !doublestar.MatchUnvalidated(pattern, rel) {
			return nil
		}
		name := path.Join(from, rel)
		if !w.take(len(name) + 4) {
			return fs.SkipAll
		}
		res.Names = append(res.Names, name)
		return nil
	})
}

const (
	longLine = 64 << 10 // bytes of a line that grep looks at together
	shown    = 500      // bytes of a line in a match
)

func grep(req *Request, res *Reply) error {
	pattern := req.Pattern
	if req.Fixed {
		pattern = regexp.QuoteMeta(pattern)
	}
	if req.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	find, err := regexp.Compile(pattern)
	if err != nil {
		return errorf(KindInvalid, "pattern %q: %v (the syntax is RE2's; fixed takes it as a text)", req.Pattern, err)
	}
	if req.Files != "" {
		if err := checkPattern(req.Files); err != nil {
			return err
		}
	}
	real, err := filepath.EvalSymlinks(req.Path)
	if err != nil {
		return err
	}
	st, err := os.Stat(real)
	if err != nil {
		return err
	}
	res.Path = real
	g := &grepping{walk: newWalk(req, res), req: req, find: find}
	if !st.IsDir() {
		if err := g.file(real, req.Path); err != nil && !errors.Is(err, fs.SkipAll) {
			return err
		}
		return nil
	}
	git := below(req.Files) || below(req.Path)
	return g.each(real, func(rel string, d fs.DirEntry) error {
		switch {
		case d.IsDir() && d.Name() == ".git" && !git:
			return fs.SkipDir
		case !d.Type().IsRegular(), req.Files != "" && !matches(req.Files, rel):
			return nil
		}
		err := g.file(filepath.Join(real, rel), path.Join(req.Path, rel))
		if err != nil && !errors.Is(err, fs.SkipAll) {
			res.Skipped++
			return nil
		}
		return err
	})
}

// matches reports whether a file matches the pattern that limits a grep. Without a slash the
// pattern is one of names.
func matches(pattern, rel string) bool {
	if !strings.Contains(pattern, "/") {
		rel = path.Base(rel)
	}
	return doublestar.MatchUnvalidated(strings.TrimPrefix(pattern, "/"), rel)
}

// A grepping is a search in files.
type grepping struct {
	*walk
	req  *Request
	find *regexp.Regexp
}

// file searches one file, which is called name in matches. fs.SkipAll: the response is full.
func (g *grepping) file(real, name string) error {
	f, _, err := archive.OpenRegular(real)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, longLine)
	if head, err := r.Peek(sniffed); isBinary(head) {
		g.res.SkippedBinary++
		return nil
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var before []Match // the last lines that are not in the response
	after := 0         // how many of the next lines belong to the last match
	count, line := 0, 1
	defer func() {
		if count > 0 && g.req.NamesOnly && g.take(len(name)+16) {
			g.res.Matches = append(g.res.Matches, Match{Path: name, Count: count})
		}
	}()
	for {
		b, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if len(b) == 0 {
			return nil
		}
		b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
		at := g.find.FindIndex(b)
		switch {
		case at != nil && g.req.NamesOnly:
			count++
		case at != nil:
			m := Match{Path: name, Line: line, Text: excerpt(b, at)}
			if !g.take(m.size()) || !g.add(before...) {
				return fs.SkipAll
			}
			g.res.Matches = append(g.res.Matches, m)
			before, after = before[:0], g.req.Context
		case g.req.Context > 0 && !g.req.NamesOnly:
			m := Match{Path: name, Line: line, Text: excerpt(b, nil), Context: true}
			if after > 0 {
				after--
				if !g.add(m) {
					return fs.SkipAll
				}
			} else if before = append(before, m); len(before) > g.req.Context {
				before = before[1:]
			}
		}
		if err == nil {
			line++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// size is about how many bytes a match takes in a text.
func (m *Match) size() int { return len(m.Path) + len(m.Text) + 12 }

// add adds lines of context. It reports whether the response has space for them.
func (g *grepping) add(lines ...Match) bool {
	for i := range lines {
		if g.bytes -= lines[i].size(); g.bytes < 0 {
			g.res.Truncated = true
			return false
		}
		g.res.Matches = append(g.res.Matches, lines[i])
	}
	return true
}

// excerpt returns a line, or what is around the match at the bytes at of a long one.
func excerpt(b []byte, at []int) string {
	from, to := 0, len(b)
	if len(b) > shown {
		if at != nil {
			from = max(0, min(at[0]-shown/4, len(b)-shown))
		}
		to = from + shown
	}
	s := strings.ToValidUTF8(string(b[from:to]), string(utf8.RuneError))
	if from > 0 {
		s = "..." + s
	}
	if to < len(b) {
		s += "..."
	}
	return s
}
