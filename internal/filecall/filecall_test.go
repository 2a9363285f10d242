package filecall

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/archive"
)

// nopCloser is a writer that need not be closed.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s: %.100q, %v", path, text, err)
	}
}

func TestSend(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d", "file")
	var sent bytes.Buffer
	s, err := NewSender(nopCloser{&sent}, &Target{Path: path, Mode: Mode{Mode: 0o640}})
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("0123456789", 300_000)
	if n, err := s.Write([]byte(content)); n != len(content) || err != nil {
		t.Fatal(n, err)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(sent.Bytes())
	if err := Write(&sent); err != nil {
		t.Fatal(err)
	}
	is(t, path, content)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	put(t, path, "old")
	for _, n := range []int{0, 5, len(whole) / 2, len(whole) - 4, len(whole) - 1} { // cut off
		if err := Write(bytes.NewReader(whole[:n])); !errors.Is(err, archive.ErrShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
		is(t, path, "old")
	}
	large := append([]byte(`{"path":"`+path+`"}`+"\n"), 0xff, 0xff, 0xff, 0xff)
	if err := Write(bytes.NewReader(large)); !errors.Is(err, archive.ErrTooLarge) {
		t.Errorf("a chunk of 4 GiB: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestReadPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put(t, path, "one\ntwo\nthree")
	for _, c := range []struct {
		read       func(io.Writer, string, int64, int64) error
		from, most int64
		head       Head
		content    string
	}{
		{Read, 0, -1, Head{13, 0, 13}, "one\ntwo\nthree"},
		{Read, 4, 3, Head{13, 4, 3}, "two"},
		{Read, 13, -1, Head{13, 13, 0}, ""},
		{Read, 1 << 62, 1 << 62, Head{13, 13, 0}, ""},
		{Read, -5, -1, Head{13, 8, 5}, "three"},
		{Read, -1 << 63, -1, Head{13, 0, 13}, "one\ntwo\nthree"},
		{Read, 0, 0, Head{13, 0, 0}, ""},
		{Lines, 2, 1, Head{13, 0, -1}, "two\n"},
		{Lines, 2, -1, Head{13, 0, -1}, "two\nthree"},
		{Lines, 3, 1 << 62, Head{13, 0, -1}, "three"},
		{Lines, 4, 1, Head{13, 0, -1}, ""},
	} {
		var out bytes.Buffer
		if err := c.read(&out, path, c.from, c.most); err != nil {
			t.Errorf("%+v: %v", c.head, err)
			continue
		}
		line, content, _ := strings.Cut(out.String(), "\n")
		var h Head
		if json.Unmarshal([]byte(line), &h) != nil || h != c.head || content != c.content {
			t.Errorf("from %d, %d: %s %q, want %+v %q", c.from, c.most, line, content, c.head, c.content)
		}
	}
	for _, missing := range []string{path + ".none", path + "/below"} {
		if err := Read(io.Discard, missing, 0, -1); archive.ExitCode(err) != archive.ExitMissing {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if err := Lines(io.Discard, filepath.Dir(path), 1, -1); archive.ExitCode(err) != archive.ExitNotRegular {
		t.Errorf("a directory: %v", err)
	}
}

// A request that fails has a kind, and what it does not name stays.
func TestDo(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := filepath.Join(t.TempDir(), "kept")
	put(t, outside, "kept")
	put(t, at("a"), "text text")
	put(t, at("b"), "b")
	if err := errors.Join(os.Mkdir(at("d"), 0o755), os.Symlink(filepath.Dir(outside), at("d/out")), os.Symlink("a", at("link"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    Request
		kind string
	}{
		{Request{Op: "odd"}, KindInvalid},
		{Request{Op: OpInfo, Paths: []string{at("none")}}, KindMissing},
		{Request{Op: OpList, Path: at("a")}, KindInvalid},
		{Request{Op: OpList, Path: at("none")}, KindMissing},
		{Request{Op: OpSearch, Path: dir, Pattern: "["}, KindInvalid},
		{Request{Op: OpRemove, Paths: []string{at("d")}}, KindInvalid},
		{Request{Op: OpRmdir, Paths: []string{at("a")}}, KindInvalid},
		{Request{Op: OpRmdir, Paths: []string{at("d/out")}}, KindInvalid},
		{Request{Op: OpMode, Modes: map[string]Mode{at("a"): {Mode: 0o10000}}}, KindInvalid},
		{Request{Op: OpMode, Modes: map[string]Mode{at("none"): {}}}, KindMissing},
		{Request{Op: OpMove, Moves: []Move{{at("a"), at("b")}}}, KindExists},
		{Request{Op: OpMove, Moves: []Move{{at("none"), at("c")}}}, KindMissing},
		{Request{Op: OpMove, Moves: []Move{{at("a"), at("none/c")}}}, KindMissing},
		{Request{Op: OpReplace, Replace: map[string]Replace{at("a"): {}}}, KindInvalid},
		{Request{Op: OpReplace, Replace: map[string]Replace{at("d"): {Old: "x"}}}, KindNotRegular},
		{Request{Op: OpReplace, Replace: map[string]Replace{at("a"): {Old: "text", New: strings.Repeat("x", MaxText)}}}, KindInvalid},
		{Request{Op: OpMkdir, Modes: map[string]Mode{at("a/x"): {}}}, KindNotDir},
	} {
		if r := Do(&c.q); r.Err == nil || r.Err.Kind != c.kind || r.Err.Message == "" {
			t.Errorf("%.200v: %+v, want %s", c.q, r.Err, c.kind)
		}
	}
	is(t, at("a"), "text text")
	is(t, at("b"), "b")
	if r := Do(&Request{Op: OpReplace, Replace: map[string]Replace{at("link"): {Old: "text", New: "t"}}}); r.Err != nil || r.Counts[at("link")] != 2 {
		t.Errorf("%+v", r)
	}
	is(t, at("a"), "t t") // and the link is one still
	for _, c := range []struct {
		offset     int64
		data, want string
	}{{0, "X", "X t"}, {2, "yz", "X yz"}, {4, "!", "X yz!"}, {1, "", "X yz!"}, {0, "t t..", "t t.."}} {
		if r := Do(&Request{Op: OpPatch, Path: at("a"), Offset: c.offset, Data: []byte(c.data)}); r.Err != nil || r.Size != int64(len(c.want)) {
			t.Errorf("%+v: %+v", c, r)
		}
		is(t, at("a"), c.want)
	}
	for _, q := range []Request{{Offset: 6}, {Offset: -1}, {Offset: 1 << 62}, {Offset: 5, Data: make([]byte, MaxText)}} {
		q.Op, q.Path = OpPatch, at("a")
		if r := Do(&q); r.Err == nil || r.Err.Kind != KindInvalid {
			t.Errorf("%d: %+v", q.Offset, r.Err)
		}
	}
	if r := Do(&Request{Op: OpRmdir, Paths: []string{at("d")}}); r.Err != nil {
		t.Errorf("%+v", r.Err)
	}
	is(t, outside, "kept")
	if r := Do(&Request{Op: OpList, Path: dir, Depth: 9}); r.Err != nil || len(r.Infos) != 3 || r.Infos[2].Type != "symlink" {
		t.Errorf("%+v", r)
	}
	if r := Do(&Request{Op: OpHost}); r.Err != nil || r.Host.CPUs < 1 || r.Host.Total < r.Host.Busy || r.Host.MemTotal < r.Host.MemUnused {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := Serve(&out, strings.NewReader(`{"op":"info","paths":["`+at("a")+`"]}`)); err != nil || !strings.Contains(out.String(), `"size":5`) {
		t.Errorf("%s, %v", out.String(), err)
	}
	if err := Serve(io.Discard, strings.NewReader("{")); err == nil {
		t.Error("half a request is done")
	}
}
