package treeserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/audit"
	"wolffia/internal/filecall"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/replica"
	"wolffia/internal/sys/rawsock"
	"wolffia/perm"
	"wolffia/runtime"
)

// A harness is a tree server of a copied codebase, and a directory that is the copy in its pod.
type harness struct {
	t        testing.TB
	tree     *treeServer
	host, in string
}

func newHarness(t testing.TB, rules ...perm.Rule) *harness {
	t.Helper()
	h := &harness{t: t, host: t.TempDir(), in: t.TempDir()}
	in, run := h.in, filepath.Join(t.TempDir(), "run")
	t.Cleanup(func() { // what is read-only can be removed
		for _, top := range []string{h.host, in, filepath.Dir(run)} {
			writable(top)
		}
	})
	for _, dir := range []string{statedir.CowUpper, statedir.CowWork} {
		if err := os.MkdirAll(filepath.Join(statedir.Cow(run), dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(statedir.Cow(run), statedir.CowLog), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := perm.Compile(append([]perm.Rule{{Pattern: "**", Level: perm.Write}}, rules...))
	if err != nil {
		t.Fatal(err)
	}
	root, err := openCodebase(h.host)
	if err != nil {
		t.Fatal(err)
	}
	b := &boot.TreeParams{Run: run, Codebase: h.host, Copied: true}
	layer, err := openCopied(b, root)
	if err != nil {
		t.Fatal(err)
	}
	h.tree = &treeServer{boot: b, root: root, copied: layer, audit: audit.NewLog(statedir.Audit(run), slog.New(slog.DiscardHandler))}
	h.tree.policy.Store(policy)
	t.Cleanup(func() { _ = errors.Join(layer.close(), unix.Close(root)) })
	return h
}

// writable lets a directory be removed.
func writable(top string) {
	_ = filepath.WalkDir(top, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(name, 0o700)
		}
		return err
	})
}

// exchange runs an exchange with serve as the pod's end.
func (h *harness) exchange(send bool, serve func(io.ReadWriter) error) error {
	h.t.Helper()
	ours, theirs, err := rawsock.Pair()
	if err != nil {
		h.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { // ends with the exchange
		err := serve(ours)
		served <- errors.Join(err, ours.Close())
	}()
	done := make(chan error, 1)
	go func() { done <- h.tree.exchange(theirs, send) }()
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		h.t.Fatal("the exchange hangs")
	}
	if serr := <-served; serr != nil && err == nil {
		h.t.Errorf("the pod's end: %v", serr)
	}
	return err
}

// sync exchanges with the copy.
func (h *harness) sync(send bool) {
	h.t.Helper()
	if err := h.exchange(send, func(conn io.ReadWriter) error { return replica.Serve(h.in, conn, conn) }); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) put(dir, name, content string) {
	h.t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) changes() (all []string) {
	h.t.Helper()
	list, err := h.tree.layers().Changes(runtime.ChangesOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range list {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Kind, c.Path, c.Conflict)))
	}
	slices.Sort(all)
	return all
}

func (h *harness) want(want ...string) {
	h.t.Helper()
	if got := h.changes(); !slices.Equal(got, want) {
		h.t.Errorf("changes: got %q, want %q", got, want)
	}
}

// list returns what the copy has, with modes and contents.
func list(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		text, _ := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		if d.Type()&os.ModeSymlink != 0 {
			target, _ := os.Readlink(name)
			text = []byte("-> " + target)
		}
		fmt.Fprintf(&b, "%s %v %s\n", rel, info.Mode(), strings.Trim(string(text), "\x00\n"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What the rules hide is never sent, and what they show by name has no content.
func TestPodGetsWhatIsShown(t *testing.T) {
	h := newHarness(t, perm.Rule{Pattern: ".env", Level: perm.None, Priority: 1}, perm.Rule{Pattern: "hid/**", Level: perm.None, Priority: 1},
		perm.Rule{Pattern: "name", Level: perm.View, Priority: 1}, perm.Rule{Pattern: "fixed/**", Level: perm.Read, Priority: 1})
	h.put(h.host, "a/f", "one\n")
	h.put(h.host, ".env", "secret")
	h.put(h.host, "hid/x", "secret")
	h.put(h.host, "name", "secret")
	h.put(h.host, "fixed/f", "fixed\n")
	if err := os.Symlink("a/f", filepath.Join(h.host, "l")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(h.host, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.sync(true)
	if got, want := list(t, h.in), "a drwxr-xr-x \na/f -rw-r--r-- one\nfixed dr-xr-xr-x \nfixed/f -r--r--r-- fixed\nhid drwxr-xr-x \nl Lrwxrwxrwx -> a/f\nname ---------- \n"; got != want {
		t.Errorf("sent:\n%s\nwant:\n%s", got, want)
	}
	h.want()
	h.sync(true)
	h.want()
}

// The pod's changes are those of the tree, by the rules, and what the host does later is a conflict.
func TestPodChanges(t *testing.T) {
	h := newHarness(t, perm.Rule{Pattern: ".env", Level: perm.None, Priority: 1}, perm.Rule{Pattern: "fixed/**", Level: perm.Read, Priority: 1})
	for _, name := range []string{"same", "edit", "gone", "both", "d/x", "d/y", "dirgone/x", "becomesdir", "fixed/f", "ro/f"} {
		h.put(h.host, name, name+"\n")
	}
	h.put(h.host, ".env", "secret")
	if err := os.Chmod(filepath.Join(h.host, "ro"), 0o555); err != nil {
		t.Fatal(err)
	}
	h.sync(true)

	h.put(h.in, "edit", "edited\n")
	h.put(h.in, "both", "the pod's\n")
	h.put(h.in, "new/deep/f", "new\n")
	h.put(h.in, ".env", "the pod's")
	for _, err := range []error{
		os.Remove(filepath.Join(h.in, "gone")), os.RemoveAll(filepath.Join(h.in, "dirgone")), os.Remove(filepath.Join(h.in, "becomesdir")),
		os.Mkdir(filepath.Join(h.in, "becomesdir"), 0o755), os.Symlink("/etc/passwd", filepath.Join(h.in, "l")),
		os.Chmod(filepath.Join(h.in, "fixed"), 0o755), os.Chmod(filepath.Join(h.in, "fixed/f"), 0o644),
		os.Chmod(filepath.Join(h.in, "new/deep"), 0o555), os.Chmod(filepath.Join(h.in, "ro"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.put(h.in, "fixed/f", "not allowed\n")
	h.put(h.in, "ro/g", "more\n")
	h.put(h.host, "both", "the host's\n")
	h.put(h.host, "dirgone/later", "the host's\n")
	h.sync(false)
	all := []string{
		"added l", "added new", "added new/deep", "added new/deep/f", "added ro/g", "deleted dirgone/x", "deleted gone",
		"modified both changed on the host", "modified edit", "type becomesdir",
	}
	h.want(all...)
	h.sync(false) // what was refused is not tried again
	h.want(all...)
	if len(h.tree.recent.Since(0)) == 0 {
		t.Error("no refusal is recorded")
	}

	h.put(h.host, "same", "edited on the host\n")
	h.put(h.host, "d/new", "of the host\n")
	if err := os.Remove(filepath.Join(h.host, "d/x")); err != nil {
		t.Fatal(err)
	}
	h.sync(true)
	h.want(all...)
	for name, want := range map[string]string{
		"same": "edited on the host\n", "d/new": "of the host\n", "d/x": "", "dirgone/later": "the host's\n", "both": "the pod's\n", "edit": "edited\n",
		"fixed/f": "not allowed\n", "new/deep/f": "new\n", ".env": "the pod's",
	} {
		if got, _ := os.ReadFile(filepath.Join(h.in, name)); string(got) != want {
			t.Errorf("%s in the pod: %q, want %q", name, got, want)
		}
	}

	// another pod
	h.tree.pod, h.in = nil, t.TempDir()
	t.Cleanup(func() { writable(h.in) })
	h.sync(true)
	h.want(all...)
	for name, want := range map[string]string{"edit": "edited\n", "gone": "", "new/deep/f": "new\n", ".env": "", "fixed/f": "fixed/f\n"} {
		if got, _ := os.ReadFile(filepath.Join(h.in, name)); string(got) != want {
			t.Errorf("%s in another pod: %q, want %q", name, got, want)
		}
	}
}

// A pod of an earlier start keeps what it has changed meanwhile, without a conflict.
func TestPodOfEarlierStart(t *testing.T) {
	h := newHarness(t)
	for _, name := range []string{"same", "edit", "d/gone"} {
		h.put(h.host, name, name+"\n")
	}
	if err := os.Symlink("same", filepath.Join(h.host, "l")); err != nil {
		t.Fatal(err)
	}
	h.sync(true)
	h.put(h.in, "edit", "edited\n")
	h.put(h.in, "new", "new\n")
	if err := os.Remove(filepath.Join(h.in, "d/gone")); err != nil {
		t.Fatal(err)
	}
	h.tree.pod = nil
	h.put(h.host, "later", "of the host\n")
	h.sync(true)
	h.want("added new", "modified edit")
	for name, want := range map[string]string{"same": "same\n", "edit": "edited\n", "later": "of the host\n", "d/gone": "d/gone\n"} {
		if got, _ := os.ReadFile(filepath.Join(h.in, name)); string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A reply of a hostile pod; the fields are those of package replica.
type podReply map[string]any

func podEntry(path string, typ uint32) podReply {
	st := map[string]any{"t": typ, "m": 0o4777, "i": 7, "s": 3}
	if typ == unix.S_IFLNK {
		return podReply{"path": []byte(path), "stat": st, "target": []byte("/etc")}
	}
	return podReply{"path": []byte(path), "stat": st}
}

// What a hostile pod says ends the exchange, and nothing outside of the upper layer changes.
func TestHostilePod(t *testing.T) {
	end, file, dir, link := podReply{"end": true}, uint32(unix.S_IFREG), uint32(unix.S_IFDIR), uint32(unix.S_IFLNK)
	long := strings.Repeat("n", 256)
	for name, replies := range map[string][]podReply{
		"above":              {podEntry("../x", file), end},
		"above in between":   {podEntry("a", dir), podEntry("a/../../x", file), end},
		"from the root":      {podEntry("/etc/x", file), end},
		"no name":            {podEntry("", file), end},
		"itself":             {podEntry(".", dir), end},
		"empty name":         {podEntry("a", dir), podEntry("a//b", file), end},
		"NUL":                {podEntry("a\x00b", file), end},
		"long name":          {podEntry(long, file), end},
		"deep":               {podEntry(strings.Repeat("d/", replica.MaxDepth)+"f", file), end},
		"below a file":       {podEntry("f", file), podEntry("f/x", file), end},
		"below a link":       {podEntry("l", link), podEntry("l/passwd", file), end},
		"below nothing":      {podEntry("a/b", file), end},
		"twice":              {podEntry("f", file), podEntry("f", link), end},
		"no kind":            {{"path": []byte("f")}, end},
		"link without end":   {{"path": []byte("l"), "stat": map[string]any{"t": link}}, end},
		"target of a file":   {{"path": []byte("f"), "stat": map[string]any{"t": file}, "target": []byte("x")}, end},
		"long target":        {{"path": []byte("l"), "stat": map[string]any{"t": link}, "target": []byte(strings.Repeat("x", unix.PathMax))}, end},
		"negative size":      {{"path": []byte("f"), "stat": map[string]any{"t": file, "s": -1}}, end},
		"no end":             {podEntry("f", file)},
		"large message":      {{"path": []byte(strings.Repeat("x", 40<<10))}, end},
		"no content":         {podEntry("f", file), end, {"stat": map[string]any{"t": file, "s": 3}}},
		"content of a link":  {podEntry("f", file), end, {"stat": map[string]any{"t": link}}},
		"content of nothing": {podEntry("f", file), end, {}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.put(h.host, "f", "host's")
			h.sync(true)
			before := list(t, h.host)
			err := h.exchange(false, func(conn io.ReadWriter) error {
				out := filecall.NewSender(conn)
				for _, r := range replies {
					if out.JSON(r) != nil {
						break // it has hung up, as it should
					}
				}
				if err := rawsock.CloseWrite(conn.(*os.File)); err != nil {
					return err
				}
				_ = readToEnd(conn) // an end before would be an error of the exchange, too
				return nil
			})
			if err == nil {
				t.Error("it is taken")
			}
			if got := list(t, h.host); got != before {
				t.Errorf("the host has %s", got)
			}
			h.want()
		})
	}
}

// What is no file, directory or link is not taken, nor are bits that set ids.
func TestPodKinds(t *testing.T) {
	h := newHarness(t)
	h.sync(true)
	if err := h.exchange(false, func(conn io.ReadWriter) error {
		out := filecall.NewSender(conn)
		err := errors.Join(out.JSON(podEntry("device", unix.S_IFBLK)), out.JSON(podEntry("white", unix.S_IFCHR)), out.JSON(podEntry("fifo", unix.S_IFIFO)),
			out.JSON(podEntry("d", unix.S_IFDIR)), out.JSON(podEntry("f", unix.S_IFREG)), out.JSON(podReply{"end": true}),
			out.JSON(podReply{"stat": podEntry("", unix.S_IFREG)["stat"]}))
		if err == nil {
			_, err = out.Write([]byte("content"))
		}
		return errors.Join(err, out.End(), readToEnd(conn))
	}); err != nil {
		t.Fatal(err)
	}
	h.want("added d", "added f")
	if got, want := list(t, filepath.Join(statedir.Cow(h.tree.boot.Run), statedir.CowUpper)), "d drwxrwxrwx \nf -rwxrwxrwx content\n"; got != want {
		t.Errorf("the upper layer has %q, want %q", got, want)
	}
}

func readToEnd(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
