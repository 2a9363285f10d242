package hostgit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// repository makes a repository with a commit, and returns its git directory and a function that
// runs git in it.
func repository(t *testing.T) (dir string, git func(in string, args ...string) string) {
	t.Helper()
	testenv.Tools(t, "git")
	top := t.TempDir()
	git = func(in string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", top, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q", "-b", "main")
	git("", "commit", "-q", "--allow-empty", "-m", "one")
	return filepath.Join(top, ".git"), git
}

func TestOpenDir(t *testing.T) {
	dir, git := repository(t)
	git("", "config", "remote.a.b.url", "https://x")
	git("", "config", "remote.other.fetch", "x")
	git("", "config", "core.ignoreCase", "true")
	d, err := OpenDir(t.Context(), dir, filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Remotes(); len(got) != 1 || !got["a.b"] || d.Config("core.ignorecase") != "true" || d.Config("core.nothing") != "" {
		t.Errorf(`Remotes: got %v, %q; want len(got) == 1 and got["a.b"] and d.Config("core.ignorecase") == "true" and d.Config("core.nothing") == ""`,
			got, d.Config("core.ignorecase"))
	}
	if out, status, err := d.Run(t.Context(), Command{Args: []string{"rev-parse", "--show-toplevel"}}); err != nil || status != 0 || strings.Contains(string(out), filepath.Dir(dir)) {
		t.Errorf("the working tree is %s, %d, %v", out, status, err)
	}
	if _, status, err := d.Run(t.Context(), Command{Args: []string{"config", "x.y"}, Status: 1}); status != 1 || err != nil {
		t.Errorf("Run: got %d, %v; want 1, nil", status, err)
	}
	if _, _, err := d.Run(t.Context(), Command{Args: []string{"rev-parse", "--verify", "nothing"}}); err == nil || !strings.Contains(err.Error(), "git rev-parse in "+dir+": fatal: ") {
		t.Error(err)
	}
	if _, err := OpenDir(t.Context(), filepath.Join(dir, "none"), t.TempDir()); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("no git directory: %v", err)
	}
}

func TestObjects(t *testing.T) {
	dir, git := repository(t)
	d, err := OpenDir(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o, err := d.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	blob := git("text\n", "hash-object", "-w", "--stdin")
	for range 2 {
		if got, err := o.Get(blob, 5); err != nil || got.Name != blob || got.Type != "blob" || string(got.Data) != "text\n" {
			t.Errorf(`Get: got %+v, err %v; want err == nil and got.Name == %v and got.Type == "blob" and got.Data == %q`,
				got, err, blob, "text\n")
		}
		if got, err := o.Get(blob, 4); err != nil || got.Type != "blob" || got.Data != nil {
			t.Errorf(`Get: got %+v, err %v; want err == nil and got.Type == "blob" and got.Data == nil`, got, err)
		}
		if got, err := o.Get("HEAD^{tree}", 100); err != nil || got.Type != "tree" || len(got.Data) != 0 {
			t.Errorf(`Get "HEAD^{tree}": got %+v, err %v; want err == nil and got.Type == "tree" and len(got.Data) == 0`, got, err)
		}
		for _, name := range []string{strings.Repeat("1", 40), blob + "^{tree}", "a b", "x\ny", ""} {
			if _, err := o.Get(name, 100); !errors.Is(err, ErrMissing) {
				t.Errorf("%q: got %v, want ErrMissing", name, err)
			}
		}
	}
}

func TestReceive(t *testing.T) {
	dir, _ := repository(t)
	other, git := repository(t)
	d, err := OpenDir(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	big := git(strings.Repeat("x", 100), "hash-object", "-w", "--stdin")
	git("", "update-index", "--add", "--cacheinfo", "100644,"+big+",big")
	git("", "commit", "-qm", "two")
	commit := git("", "rev-parse", "HEAD")
	pack := func(args ...string) func(context.Context, io.Writer) error {
		return func(ctx context.Context, w io.Writer) error {
			cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + other, "pack-objects", "--stdout", "-q"}, args...)...)
			cmd.Stdin, cmd.Stdout = strings.NewReader(commit+"\n"), w
			return cmd.Run()
		}
	}
	refs := []Ref{{"refs/x/1", commit}, {"refs/x/2", commit}}
	lost := errors.New("the sandbox has ended")
	for what, c := range map[string]struct {
		pack func(context.Context, io.Writer) error
		most int64
		want error
	}{
		"too large":       {pack("--revs"), 40, ErrRefused},
		"not all objects": {pack(), 0, ErrRefused},
		"no pack":         {func(context.Context, io.Writer) error { return nil }, 0, ErrRefused},
		"no objects": {func(_ context.Context, w io.Writer) error {
			_, err := w.Write([]byte("PACK garbage, and more of it, and more of it"))
			return err
		}, 0, ErrRefused},
		"lost": {func(_ context.Context, w io.Writer) error {
			_, _ = w.Write([]byte("PACK"))
			return lost
		}, 0, lost},
	} {
		if err := d.Receive(t.Context(), refs, c.pack, c.most); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
	if out, _, err := d.Run(t.Context(), Command{Args: []string{"for-each-ref", "refs/x"}}); err != nil || len(out) > 0 {
		t.Errorf("Run: got out %s, err %v; want err == nil and len(out) <= 0", out, err)
	}
	if err := d.Receive(t.Context(), refs, pack("--revs"), 0); err != nil {
		t.Fatal(err)
	}
	out, _, err := d.Run(t.Context(), Command{Args: []string{"for-each-ref", "--format=%(objectname)", "refs/x"}})
	if err != nil || string(out) != commit+"\n"+commit+"\n" {
		t.Errorf("Run: got %s, %v; want %q, nil", out, err, commit+"\n"+commit+"\n")
	}
	if left, _ := filepath.Glob(dir + "/objects/*incoming*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if err := d.SyncRefs([]string{"refs/x/1", "refs/x", "refs/none"}); err != nil {
		t.Error(err)
	}
}

// A pack that does not end at once stays one.
func TestReceiveLarge(t *testing.T) {
	dir, _ := repository(t)
	other, git := repository(t)
	d, err := OpenDir(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	random, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer random.Close()
	var b bytes.Buffer
	if _, err := io.CopyN(&b, random, loose+1000); err != nil {
		t.Fatal(err)
	}
	big := git(b.String(), "hash-object", "-w", "--stdin")
	git("", "update-index", "--add", "--cacheinfo", "100644,"+big+",big")
	git("", "commit", "-qm", "two")
	err = d.Receive(t.Context(), []Ref{{"refs/x/1", git("", "rev-parse", "HEAD")}}, func(ctx context.Context, w io.Writer) error {
		cmd := exec.CommandContext(ctx, "git", "--git-dir="+other, "pack-objects", "--stdout", "-q", "--revs")
		cmd.Stdin, cmd.Stdout = strings.NewReader("HEAD\n"), w
		return cmd.Run()
	}, 0)
	if packs, _ := filepath.Glob(dir + "/objects/pack/*.pack"); err != nil || len(packs) != 1 {
		t.Errorf("filepath.Glob: got packs %v, err %v; want err == nil and len(packs) == 1", packs, err)
	}
}

func TestPrintable(t *testing.T) {
	if got := Printable("a\x1b[0m\u202eb\xffc\u0085é\n"); got != "a?[0m?b?c?é\n" {
		t.Errorf("Printable %q: got %q, want %q", "a\x1b[0m\u202eb\xffc\u0085é\n", got, "a?[0m?b?c?é\n")
	}
}
