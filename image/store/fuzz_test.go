package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
)

// A node is a name in the model of a tree.
type node struct {
	kind byte // tar's
	data *string
	link string
	made bool // by the current layer, or on the way to what it has made
}

// A model is what a tree should be, as the specification has it, written in
// the most obvious way: names to nodes.
type model map[string]*node

var errModel = errors.New("refused")

// below are the names under dir.
func (m model) below(dir string) []string {
	var all []string
	for name := range m {
		if dir == "." || strings.HasPrefix(name, dir+"/") {
			all = append(all, name)
		}
	}
	return all
}

func (m model) drop(name string) {
	for _, n := range m.below(name) {
		delete(m, n)
	}
	delete(m, name)
}

// layer applies one.
func (m model) layer(items []item) error {
	for _, n := range m {
		n.made = false
	}
	for _, i := range items {
		if err := m.entry(i); err != nil {
			return err
		}
	}
	return nil
}

func (m model) entry(i item) error {
	if slices.Contains(strings.Split(i.name, "/"), "..") {
		return errModel
	}
	name := path.Clean("/" + i.name)[1:]
	if name == "" {
		if i.typ != tar.TypeDir {
			return errModel
		}
		return nil
	}
	dir, base := path.Dir(name), path.Base(name)
	if rest, ok := strings.CutPrefix(base, ".wh."); ok {
		switch {
		case base == ".wh..wh..opq":
			if dir == "." || m.isDir(dir) {
				m.hide(m.below(dir))
			}
			return nil
		case strings.HasPrefix(base, ".wh..wh."):
			return nil
		case rest == "" || rest == "." || rest == "..":
			return errModel
		}
		if dir == "." || m.isDir(dir) {
			victim := path.Join(dir, rest)
			m.hide(append(m.below(victim), victim))
		}
		return nil
	}
	// The way there.
	if dir != "." {
		at := ""
		for part := range strings.SplitSeq(dir, "/") {
			at = path.Join(at, part)
			n := m[at]
			if n != nil && n.kind != tar.TypeDir {
				if n.made {
					return errModel
				}
				m.drop(at)
				n = nil
			}
			if n == nil {
				n = &node{kind: tar.TypeDir}
				m[at] = n
			}
		}
		for at := dir; at != "."; at = path.Dir(at) {
			m[at].made = true
		}
	}
	n := &node{kind: i.typ, made: true}
	switch i.typ {
	case tar.TypeDir:
		if m.isDir(name) {
			m[name].made = true
			return nil
		}
	case tar.TypeReg:
		n.data = &i.body
	case tar.TypeSymlink:
		n.link = i.link
		if n.link == "" {
			return errModel
		}
	case tar.TypeLink:
		if slices.Contains(strings.Split(i.link, "/"), "..") {
			return errModel
		}
		to := path.Clean("/" + i.link)[1:]
		if to == name || to == "" {
			return errModel
		}
		m.drop(name)
		target := m[to]
		if target == nil || target.kind == tar.TypeDir {
			return errModel
		}
		n.kind, n.data, n.link = target.kind, target.data, target.link
	case tar.TypeChar:
		m.drop(name)
		return nil
	}
	m.drop(name)
	m[name] = n
	return nil
}

func (m model) isDir(name string) bool { return m[name] != nil && m[name].kind == tar.TypeDir }

// hide deletes those of names that the layer has not made.
func (m model) hide(names []string) {
	for _, n := range names {
		if m[n] != nil && !m[n].made {
			delete(m, n)
		}
	}
}

// shape is as place.shape, without modes.
func (m model) shape() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch n := m[name]; n.kind {
		case tar.TypeDir:
			lines = append(lines, name+"/")
		case tar.TypeSymlink:
			lines = append(lines, name+" -> "+n.link)
		case tar.TypeReg:
			lines = append(lines, name+" "+*n.data)
		default:
			lines = append(lines, name+" other")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// plainShape is what model.shape gives for a real tree.
func (p *place) plainShape(t testing.TB) string {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(p.shape(t), "\n") {
		line, _, _ = strings.Cut(line, " = ")
		name, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
			continue
		case strings.HasPrefix(rest, "-> "):
		case strings.HasSuffix(name, "/"):
			line = name
		default:
			_, data, _ := strings.Cut(rest, " ")
			line = name + " " + data
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// words make names that meet one another, and all that is special.
var words = []string{"a", "b", "c", "..", ".", "", "/", ".wh.a", ".wh.b", ".wh..wh..opq", ".wh.", ".wh...", "outside", "file"}

// program reads layers of items from bytes: three bytes for each, and more for
// deeper names. A high bit begins a layer.
func program(data []byte) [][]item {
	layers := [][]item{nil}
	next := func() byte {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return b
	}
	name := func() string {
		var parts []string
		n := int(next())
		for range n%3 + 1 {
			parts = append(parts, words[int(next())%len(words)])
		}
		return strings.Join(parts, "/")
	}
	kinds := []byte{tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeSymlink, tar.TypeLink, tar.TypeChar}
	for count := 0; len(data) > 0 && count < 60; count++ {
		op := next()
		if op&0x80 != 0 && len(layers) < 4 {
			layers = append(layers, nil)
		}
		i := item{typ: kinds[int(op&0x7f)%len(kinds)], name: name()}
		switch i.typ {
		case tar.TypeReg:
			i.body = fmt.Sprint(count)
		case tar.TypeSymlink, tar.TypeLink:
			i.link = name()
		}
		// What a tar archive cannot say.
		if i.typ != tar.TypeDir {
			i.name = strings.TrimRight(i.name, "/")
		}
		if i.name == "" || i.typ != tar.TypeReg && i.typ != tar.TypeDir && i.typ != tar.TypeChar && i.link == "" {
			continue
		}
		layers[len(layers)-1] = append(layers[len(layers)-1], i)
	}
	return layers
}

// Whatever layers there are, the tree is what the model says, they are refused
// where it refuses them, and nothing outside changes.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x83, 0, 1, 0, 12, 0, 1, 1, 0})
	f.Add([]byte("link then below \x83\x01\x00\x0c\x80\x02\x00\x0d"))
	f.Add([]byte{2, 0, 0, 0, 1, 0, 1, 0x80, 1, 0, 9, 0x81, 0, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPlace(t)
		m := model{}
		for n, items := range program(data) {
			_, err := p.apply(t, Limits{}, archive(t, items...))
			want := m.layer(items)
			if (err == nil) != (want == nil) {
				t.Fatalf("layer %d: %v, the model says %v\n%+v", n, err, want, items)
			}
			p.untouched(t)
			if err != nil {
				if runtime.Class(err) != runtime.ErrInvalid {
					t.Fatalf("layer %d: %v is of the wrong class\n%+v", n, err, items)
				}
				return
			}
			if got, want := p.plainShape(t), m.shape(); got != want {
				t.Fatalf("layer %d %+v: got\n%s\nwant\n%s", n, items, got, want)
			}
		}
	})
}

// Whatever bytes there are, nothing outside changes, and the limits hold.
func FuzzUnpackBytes(f *testing.F) {
	f.Add(archive(f, item{name: "a/b", body: "x"}, item{name: "l", link: "../outside"}, item{name: "a/.wh.b"}))
	f.Add(sparse(f, 1<<20))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPlace(t)
		u, _ := p.apply(t, Limits{Size: 1 << 20, Files: 50}, data, data)
		if u.size > 1<<20 || u.files > 51 {
			t.Errorf("%d bytes in %d files", u.size, u.files)
		}
		p.untouched(t)
		if bytes.Count([]byte(p.shape(t)), []byte("\n")) > 50 {
			t.Error("too many files")
		}
	})
}
