package gitscan

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEntryLikeGit: what the index says is what git has seen and kept.
func TestEntryLikeGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		root := t.TempDir()
		git(t, root, "init", "-q", "--object-format="+format)
		write(t, filepath.Join(root, "dir/.env"), "A=1\n")
		symlink(t, "elsewhere", filepath.Join(root, "link"))
		git(t, root, "add", ".")
		trees := scan(t, nil, root).Trees
		if d := cmp.Diff([]Tree{{Top: ".", Dir: root + "/.git", Common: root + "/.git"}}, trees); d != "" {
			t.Fatal(d)
		}
		dir, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		entries, err := Tracked(t.Context(), trees[0], func([]byte) bool { return true })
		if err != nil || len(entries) != 2 || entries[0].Path != "dir/.env" || entries[1].Path != "link" {
			t.Fatal(entries, err)
		}
		for _, e := range entries {
			f, err := Read(dir, e.Path, 100)
			if err != nil {
				t.Fatal(err)
			}
			if f.Ctime != e.Ctime || f.Mtime != e.Mtime || uint32(f.Inode) != e.Inode || uint32(f.Size) != e.Size {
				t.Errorf("%s: index %+v, file %+v", e.Path, e, f)
			}
			if want := map[bool]uint32{false: 0o100644, true: 0o120000}[f.Link]; e.Mode != want {
				t.Errorf("%s: mode %o", e.Path, e.Mode)
			}
			if id := BlobID(f.Content, len(e.ID)); !bytes.Equal(id, e.ID) {
				t.Errorf("%s: id %x, index %x", e.Path, id, e.ID)
			}
		}
	}
}

// TestTreesElsewhere: a repository whose configuration says that its working tree is
// elsewhere has none here; that of a linked worktree may be outside of the scanned directory.
func TestTreesElsewhere(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	project(t, root)
	for _, sub := range []string{"moved", "same", "deep/er"} {
		project(t, filepath.Join(root, sub))
	}
	git(t, filepath.Join(root, "moved"), "config", "core.worktree", root)
	git(t, filepath.Join(root, "same"), "config", "core.worktree", "../../same")
	project(t, filepath.Join(dir, "main"))
	git(t, filepath.Join(dir, "main"), "worktree", "add", "-q", filepath.Join(root, "tree"))
	git(t, root, "-c", "advice.addEmbeddedRepo=false", "submodule", "-q", "add", filepath.Join(dir, "main"), "sub")
	git(t, root, "init", "-q", "--bare", "bare.git")
	want := []Tree{
		{Top: ".", Dir: root + "/.git", Common: root + "/.git"},
		{Top: "same", Dir: root + "/same/.git", Common: root + "/same/.git"},
		{Top: "sub", Dir: root + "/.git/modules/sub", Common: root + "/.git/modules/sub"},
		{Top: "tree", Dir: dir + "/main/.git/worktrees/tree", Common: dir + "/main/.git"},
		{Top: "deep/er", Dir: root + "/deep/er/.git", Common: root + "/deep/er/.git"},
	}
	if d := cmp.Diff(want, scan(t, nil, root).Trees); d != "" {
		t.Error(d)
	}
}

// TestScanCredentials: settings with a token are found, plain ones are not.
func TestScanCredentials(t *testing.T) {
	root := t.TempDir()
	project(t, root)
	for _, s := range [][2]string{
		{"remote.a.url", "https://user:pw@example.invalid/x"},
		{"remote.b.url", "https://ghp_0123456789abcdef@example.invalid/x"},
		{"remote.c.url", "https://user@example.invalid/x"},
		{"remote.d.url", "git@example.invalid:x"},
		{"remote.e.url", "ssh://git@example.invalid/x"},
		{"http.https://example.invalid/.extraheader", "AUTHORIZATION: basic abc"},
		{"url.https://u:pw@example.invalid/.insteadof", "https://example.invalid/"},
		{"sendemail.smtppass", "x"},
		{"credential.helper", "store"},
	} {
		git(t, root, "config", s[0], s[1])
	}
	want := []Credential{
		{".git/config", "remote.a.url"},
		{".git/config", "remote.b.url"},
		{".git/config", "http.https://example.invalid/.extraheader"},
		{".git/config", "url.https://example.invalid/.insteadof"},
		{".git/config", "sendemail.smtppass"},
	}
	if d := cmp.Diff(want, scan(t, nil, root).Credentials); d != "" {
		t.Error(d)
	}
}

// TestReadOnlyFiles: nothing but a file or a link is read, and no link on the
// way is followed.
func TestReadOnlyFiles(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "dir/file"), "text")
	symlink(t, "dir", filepath.Join(root, "link"))
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	before := time.Now().Add(-time.Hour).UnixNano()
	if f, err := Read(dir, "dir/file", 4); err != nil || string(f.Content) != "text" || f.Link || f.Mtime < before || f.Size != 4 {
		t.Errorf(`Read "dir/file": got f %+v, err %v; want err == nil and f.Content == "text" and not f.Link and f.Mtime >= %v and f.Size == 4`,
			f, err, before)
	}
	if f, err := Read(dir, "dir/file", 3); err != nil || f.Content != nil {
		t.Errorf("too long: %+v, %v", f, err)
	}
	if f, err := Read(dir, "link", 3); err != nil || string(f.Content) != "dir" || !f.Link {
		t.Errorf("link: %+v, %v", f, err)
	}
	for _, name := range []string{"dir", "link/file", "none", "../" + filepath.Base(root) + "/dir/file", "/etc/passwd"} {
		if f, err := Read(dir, name, 100); err == nil {
			t.Errorf("%s: got %+v; want err != nil", name, f)
		}
	}
}
