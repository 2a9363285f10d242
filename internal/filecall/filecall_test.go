package filecall

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func text(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s: got %.100q, %v; want %.100q, nil", path, text, err, want)
	}
}

// asked returns requests with contents as a host sends them.
func asked(t *testing.T, q *Request, content string) []byte {
	t.Helper()
	var sent bytes.Buffer
	s := NewSender(&sent)
	err := s.JSON(q)
	if q.Op == OpPut || q.Op == OpWrite || q.Op == OpStore {
		var n int
		if n, err = io.WriteString(s, content); n != len(content) || err != nil {
			t.Fatal(n, err)
		}
		err = s.End()
	}
	if err != nil {
		t.Fatal(err)
	}
	return sent.Bytes()
}

func TestPut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d", "file")
	content := strings.Repeat("0123456789", 300_000)
	whole := asked(t, &Request{Op: OpPut, Path: path, Mode: Mode{Mode: 0o640}}, content)
	if err := Serve(io.Discard, bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	is(t, path, content)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("os.Stat: got st %v, err %v; want err == nil and st.Mode().Perm() == 0o640", st, err)
	}
	text(t, path, "old")
	for _, n := range []int{1, 5, len(whole) / 2, len(whole) - 4, len(whole) - 1} { // cut off
		if err := Serve(io.Discard, bytes.NewReader(whole[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
		is(t, path, "old")
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 1", left, err)
	}
	long := binary.BigEndian.AppendUint32(nil, MaxRequest+1)
	if err := Serve(io.Discard, bytes.NewReader(long)); err == nil {
		t.Error("a request of any length is done")
	}
}

// One process does many requests, also after those that fail, and each begins where the process did.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	in := slices.Concat(
		asked(t, &Request{Op: OpPut, Path: dir}, "a directory is not replaced"),
		asked(t, &Request{Op: OpPut, Path: "d/file"}, ""),
		asked(t, &Request{Op: OpPut, Path: "d/file"}, "content"),
		asked(t, &Request{Op: OpGet, Path: "d/none", Most: -1}, ""),
		asked(t, &Request{Op: OpGet, Path: "d/file", Most: -1}, ""),
		asked(t, &Request{Op: OpInfo, Paths: []string{"d/file"}}, ""),
	)
	var out bytes.Buffer
	if err := Serve(&out, bytes.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	r := NewReceiver(&out)
	for n, kind := range []string{KindNotRegular, "", "", KindMissing, "", ""} {
		var reply Reply
		if err := r.JSON(&reply, 1<<20); err != nil || reply.Err != nil != (kind != "") || kind != "" && reply.Err.Kind != kind {
			t.Fatalf(`%d: got reply %+v, err %v; want err == nil and reply.Err != nil == kind != "" and (kind == "" or reply.Err.Kind == %v)`,
				n, reply, err, kind)
		}
		if reply.Head == nil {
			continue
		}
		r.Begin()
		if content, err := io.ReadAll(r); string(content) != "content" || err != nil {
			t.Errorf(`io.ReadAll: got %q, %v; want "content", nil`, content, err)
		}
	}
	if err := r.JSON(new(Reply), 1<<20); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v", err)
	}
}

func TestGet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	text(t, path, "one\ntwo\nthree")
	get := func(q *Request) (*Reply, string) {
		t.Helper()
		var out bytes.Buffer
		if err := Serve(&out, bytes.NewReader(asked(t, q, ""))); err != nil {
			t.Fatal(err)
		}
		r, reply := NewReceiver(&out), new(Reply)
		if err := r.JSON(reply, 1<<20); err != nil || reply.Head == nil {
			return reply, ""
		}
		r.Begin()
		content, err := io.ReadAll(r)
		if err != nil || !r.Ended() {
			t.Error(err)
		}
		return reply, string(content)
	}
	for _, c := range []struct {
		op         string
		from, most int64
		head       Head
		content    string
	}{
		{OpGet, 0, -1, Head{Size: 13, Start: 0, Bytes: 13}, "one\ntwo\nthree"},
		{OpGet, 4, 3, Head{Size: 13, Start: 4, Bytes: 3}, "two"},
		{OpGet, 13, -1, Head{Size: 13, Start: 13, Bytes: 0}, ""},
		{OpGet, 1 << 62, 1 << 62, Head{Size: 13, Start: 13, Bytes: 0}, ""},
		{OpGet, -5, -1, Head{Size: 13, Start: 8, Bytes: 5}, "three"},
		{OpGet, -1 << 63, -1, Head{Size: 13, Start: 0, Bytes: 13}, "one\ntwo\nthree"},
		{OpGet, 0, 0, Head{Size: 13, Start: 0, Bytes: 0}, ""},
		{OpLines, 1, -1, Head{Size: 13, Start: 0, Bytes: -1}, "one\ntwo\nthree"},
		{OpLines, 2, 1, Head{Size: 13, Start: 0, Bytes: -1}, "two\n"},
		{OpLines, 2, -1, Head{Size: 13, Start: 0, Bytes: -1}, "two\nthree"},
		{OpLines, 3, 1 << 62, Head{Size: 13, Start: 0, Bytes: -1}, "three"},
		{OpLines, 4, 1, Head{Size: 13, Start: 0, Bytes: -1}, ""},
		{OpLines, 1, 0, Head{Size: 13, Start: 0, Bytes: -1}, ""},
	} {
		reply, content := get(&Request{Op: c.op, Path: path, From: c.from, Most: c.most})
		if c.head.Modified = reply.Head.Modified; c.head.Modified.IsZero() || *reply.Head != c.head || content != c.content {
			t.Errorf("%s from %d, %d: %+v %q, want %+v %q", c.op, c.from, c.most, reply, content, c.head, c.content)
		}
	}
	text(t, path, strings.Repeat("x", 200_000)+"\nlast\n") // a line longer than any buffer
	if _, content := get(&Request{Op: OpLines, Path: path, From: 2, Most: 1}); content != "last\n" {
		t.Errorf("get: got %q, want %q", content, "last\n")
	}
	if _, content := get(&Request{Op: OpLines, Path: path, From: 1, Most: 1}); len(content) != 200_001 {
		t.Errorf("%d bytes", len(content))
	}
	for name, want := range map[string]string{path + ".none": KindMissing, path + "/below": KindNotDir, filepath.Dir(path): KindNotRegular} {
		for _, op := range []string{OpGet, OpLines} {
			if reply, _ := get(&Request{Op: op, Path: name, From: 1, Most: -1}); reply.Err == nil || reply.Err.Kind != want {
				t.Errorf("%s: %+v, want %s", name, reply.Err, want)
			}
		}
	}
	if reply, content := get(&Request{Op: OpGet, Path: "/proc/self/comm", Most: -1}); reply.Err != nil || content == "" || reply.Head.Bytes != int64(len(content)) {
		t.Errorf("a file of /proc: %+v, %q", reply, content)
	}
}

// A request that fails has a kind, and what it does not name stays.
func TestDo(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := filepath.Join(t.TempDir(), "kept")
	text(t, outside, "kept")
	text(t, at("a"), "text text")
	text(t, at("b"), "b")
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
		{Request{Op: OpMove, Moves: []Move{{From: at("a"), To: at("b")}}}, KindExists},
		{Request{Op: OpMove, Moves: []Move{{From: at("none"), To: at("c")}}}, KindMissing},
		{Request{Op: OpMove, Moves: []Move{{From: at("none"), To: at("none/c")}}}, KindMissing},
		{Request{Op: OpReplace, Replace: map[string]Replace{at("a"): {}}}, KindInvalid},
		{Request{Op: OpReplace, Replace: map[string]Replace{at("d"): {Old: "x"}}}, KindNotRegular},
		{Request{Op: OpReplace, Replace: map[string]Replace{at("a"): {Old: "text", New: strings.Repeat("x", MaxText)}}}, KindInvalid},
		{Request{Op: OpMkdir, Modes: map[string]Mode{at("a/x"): {}}}, KindExists},
	} {
		if r := Do(&c.q); r.Err == nil || r.Err.Kind != c.kind || r.Err.Message == "" {
			t.Errorf("%.200v: %+v, want %s", c.q, r.Err, c.kind)
		}
	}
	is(t, at("a"), "text text")
	is(t, at("b"), "b")
	if r := Do(&Request{Op: OpReplace, Replace: map[string]Replace{at("link"): {Old: "text", New: "t"}}}); r.Err != nil || r.Counts[at("link")] != 2 {
		t.Errorf(`Do: got r %+v; want r.Err == nil and r.Counts[at("link")] == 2`, r)
	}
	is(t, at("a"), "t t") // and the link is one still
	for _, c := range []struct {
		offset     int64
		data, want string
	}{{0, "X", "X t"}, {2, "yz", "X yz"}, {4, "!", "X yz!"}, {1, "", "X yz!"}, {0, "t t..", "t t.."}} {
		if r := Do(&Request{Op: OpPatch, Path: at("a"), Offset: c.offset, Data: []byte(c.data)}); r.Err != nil || r.Size != int64(len(c.want)) {
			t.Errorf("Do: got c %+v, r %+v; want r.Err == nil and r.Size == int64(len(c.want))", c, r)
		}
		is(t, at("a"), c.want)
	}
	for _, q := range []Request{{Offset: 6}, {Offset: -1}, {Offset: 1 << 62}, {Offset: 5, Data: make([]byte, MaxText)}} {
		q.Op, q.Path = OpPatch, at("a")
		if r := Do(&q); r.Err == nil || r.Err.Kind != KindInvalid {
			t.Errorf("%d: got r.Err %+v; want r.Err != nil and r.Err.Kind == KindInvalid", q.Offset, r.Err)
		}
	}
	if r := Do(&Request{Op: OpRmdir, Paths: []string{at("d")}}); r.Err != nil {
		t.Errorf("Do: got %+v, want nil", r.Err)
	}
	is(t, outside, "kept")
	if r := Do(&Request{Op: OpList, Path: dir, Depth: 9}); r.Err != nil || len(r.Infos) != 3 || r.Infos[2].Type != "symlink" {
		t.Errorf(`Do: got r %+v; want r.Err == nil and len(r.Infos) == 3 and r.Infos[2].Type == "symlink"`, r)
	}
	if r := Do(&Request{Op: OpHost}); r.Err != nil || r.Host.CPUs < 1 || r.Host.Total < r.Host.Busy || r.Host.MemTotal < r.Host.MemUnused {
		t.Errorf("Do: got r %+v; want r.Err == nil and r.Host.CPUs >= 1 and r.Host.Total >= %v and r.Host.MemTotal >= %v",
			r, r.Host.Busy, r.Host.MemUnused)
	}
}
