package filecall

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/dirwatch"
	"wolffia/internal/test/wait"
)

// stored sends a content for OpStore, and returns the reply.
func stored(t *testing.T, q *Request, content string) *Reply {
	t.Helper()
	var got bytes.Buffer
	r := new(Reply)
	if err := errors.Join(Serve(&got, bytes.NewReader(asked(t, q, content))), NewReceiver(&got).JSON(r, 1<<20)); err != nil {
		t.Fatal(err)
	}
	return r
}

// A file is written in place, and its attributes are those of the last request.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "d", "e", "file"), filepath.Join(dir, "link")
	q := &Request{Op: OpStore, Path: path, Prefix: "user.test.", Attrs: map[string]string{"a": "1", "b": ""}}
	r := stored(t, q, "one")
	if r.Err != nil && r.Err.Kind == KindNoAttrs {
		t.Skip("the file system of the temporary directory has no attributes")
	}
	if r.Err != nil || len(r.Infos) != 1 || r.Infos[0].Text != "-rw-r--r--" || !maps.Equal(r.Infos[0].Attrs, q.Attrs) || r.Infos[0].Size != 3 {
		t.Fatalf("%+v %+v", r.Err, r.Infos)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r = stored(t, &Request{Op: OpStore, Path: link, Prefix: "user.test.", Attrs: map[string]string{"c": "3"}}, "x")
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
	is(t, path, "x")
	i := &r.Infos[0]
	if i.Type != "symlink" || i.Target != path || i.TargetType != "file" || i.TargetMode != 0o644 || i.Text[0] != 'L' || !maps.Equal(i.Attrs, map[string]string{"c": "3"}) {
		t.Errorf("%+v", i)
	}
	for _, bad := range []string{dir, path + "/x"} {
		if r := stored(t, &Request{Op: OpStore, Path: bad}, "x"); r.Err == nil {
			t.Errorf("%s was written", bad)
		}
	}
}

// What is read of attributes is bounded, whatever a file has.
func TestAttributesBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	attrs := map[string]string{}
	for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
		attrs[n] = strings.Repeat(n, 900)
	}
	if r := stored(t, &Request{Op: OpStore, Path: path, Prefix: "user.t.", Attrs: attrs}, ""); r.Err != nil {
		t.Skip(r.Err)
	}
	size := 0
	for _, v := range attributes(path, "user.t.") {
		size += len(v)
	}
	if size < 2000 || size > maxValues {
		t.Errorf("%d bytes", size)
	}
}

func TestEntries(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	kind := func(q *Request) string {
		r := Do(q)
		if r.Err == nil {
			return ""
		}
		return r.Err.Kind
	}
	text(t, at("f"), "f")
	for _, c := range []struct{ name, want string }{{"a/b/c", ""}, {"a/b", KindExists}, {"f", KindInvalid}, {"f/x", KindInvalid}} {
		if got := kind(&Request{Op: OpNewDir, Path: at(c.name)}); got != c.want {
			t.Errorf("new directory %s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := kind(&Request{Op: OpDelete, Paths: []string{at("a"), at("none"), at("f/none")}}); got != "" {
		t.Errorf("delete: %s", got)
	}
	if _, err := os.Lstat(at("a")); err == nil {
		t.Error("a was not deleted")
	}
	text(t, at("g"), "g")
	if got := kind(&Request{Op: OpMove, Moves: []Move{{From: at("f"), To: at("g")}}}); got != KindExists {
		t.Errorf("move: %q", got)
	}
	if got := kind(&Request{Op: OpMove, Moves: []Move{{From: at("f"), To: at("g"), Replace: true}}}); got != "" {
		t.Errorf("replace: %q", got)
	}
	is(t, at("g"), "f")
	text(t, at("h"), "h")
	if got := kind(&Request{Op: OpJoin, Path: at("all"), Paths: []string{at("g"), at("none")}}); got != KindMissing {
		t.Errorf("join: %q", got)
	}
	is(t, at("g"), "f")
	if r := Do(&Request{Op: OpJoin, Path: at("x/all"), Paths: []string{at("g"), at("h")}}); r.Err != nil || len(r.Infos) != 1 {
		t.Errorf("join: %+v", r.Err)
	}
	is(t, at("x/all"), "fh")
	if _, err := os.Lstat(at("g")); err == nil {
		t.Error("join has left a part")
	}
	if err := os.Symlink("nowhere", at("broken")); err != nil {
		t.Fatal(err)
	}
	r := Do(&Request{Op: OpInfo, Paths: []string{at("broken")}, Full: true})
	if i := r.Infos[0]; i.Target != at("broken") || i.TargetType != "" {
		t.Errorf("%+v", i)
	}
	if r := Do(&Request{Op: OpHome, Pattern: "root"}); r.Path != "/root" {
		t.Errorf("%+v", r)
	}
}

// watching starts OpWatch in this process.
func watching(t *testing.T, q *Request) (next func() []Event) {
	t.Helper()
	in, asks := io.Pipe()
	replies, out := io.Pipe()
	go func() { // ends with the test
		_ = Serve(out, in)
		_ = out.Close()
	}()
	t.Cleanup(func() { _, _ = asks.Close(), replies.Close() })
	r, reply := NewReceiver(replies), new(Reply)
	if err := errors.Join(NewSender(asks).JSON(q), r.JSON(reply, 1<<16)); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	return func() (events []Event) {
		if err := r.JSON(&events, MaxEvents); err != nil {
			t.Fatal(err)
		}
		return events
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	next := watching(t, &Request{Op: OpWatch, Path: dir, Depth: 2, Full: true})
	var seen []Event
	await := func(op, name string) (found Event) {
		t.Helper()
		wait.Until(t, op+" of "+name, func() bool {
			n := slices.IndexFunc(seen, func(e Event) bool { return e.Op == op && e.Name == name })
			if n < 0 {
				seen = append(seen, next()...)
				return false
			}
			found, seen = seen[n], seen[n+1:]
			return true
		})
		return found
	}
	text(t, at("f"), "text")
	await(dirwatch.Created, "f")
	if e := await(dirwatch.Written, "f"); e.Info == nil || e.Info.Path != at("f") || e.Info.Type != "file" {
		t.Errorf("%+v", e.Info)
	}
	if err := errors.Join(os.Chmod(at("f"), 0o600), os.Rename(at("f"), at("g"))); err != nil {
		t.Fatal(err)
	}
	await(dirwatch.Changed, "f")
	if e := await(dirwatch.Renamed, "f"); e.Info != nil {
		t.Error("a name that has gone is described")
	}
	await(dirwatch.Created, "g")
	if err := os.Remove(at("g")); err != nil {
		t.Fatal(err)
	}
	await(dirwatch.Removed, "g")
	// A tree that comes all at once is reported, and watched, also under its next name.
	if err := os.MkdirAll(at("a/b/c"), 0o755); err != nil {
		t.Fatal(err)
	}
	await(dirwatch.Created, "a/b/c")
	text(t, at("a/b/c/x"), "x")
	await(dirwatch.Written, "a/b/c/x")
	if err := os.Rename(at("a"), at("z")); err != nil {
		t.Fatal(err)
	}
	await(dirwatch.Created, "z/b/c/x")
	text(t, at("z/b/c/x"), "y")
	await(dirwatch.Written, "z/b/c/x")
}

func TestWatchErrors(t *testing.T) {
	dir := t.TempDir()
	text(t, filepath.Join(dir, "f"), "")
	for name, want := range map[string]string{"f": KindInvalid, "none": KindMissing} {
		var sent, got bytes.Buffer
		r := new(Reply)
		err := errors.Join(NewSender(&sent).JSON(&Request{Op: OpWatch, Path: filepath.Join(dir, name)}), Serve(&got, &sent), NewReceiver(&got).JSON(r, 1<<16))
		if err != nil || r.Err == nil || r.Err.Kind != want {
			text, _ := json.Marshal(r)
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
