package gitscan

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		if d := cmp.Diff([]Tree{{Top: ".", Dir: ".git", Common: ".git"}}, trees); d != "" {
			t.Fatal(d)
		}
		dir, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		entries, err := Tracked(t.Context(), root, trees[0], func([]byte) bool { return true })
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
			if id := BlobID(f.Content, hashSize(root, trees[0])); !bytes.Equal(id, e.ID) {
				t.Errorf("%s: id %x, index %x", e.Path, id, e.ID)
			}
		}
	}
}

// TestObject: an object is found loose and packed, in a repository and in its
// worktree, and not if it is not there or is another.
func TestObject(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		root := t.TempDir()
		main := filepath.Join(root, "main")
		project(t, main, "--object-format="+format)
		for i := range 300 { // so that each first byte has some
			write(t, fmt.Sprintf("%s/many/%d", main, i), strings.Repeat("c", i+1))
		}
		git(t, main, "add", ".")
		git(t, main, "commit", "-q", "-m", "y")
		git(t, main, "worktree", "add", "-q", "../tree")
		dir, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		trees := scan(t, nil, root).Trees
		if d := cmp.Diff([]Tree{
			{Top: "main", Dir: "main/.git", Common: "main/.git"},
			{Top: "tree", Dir: "main/.git/worktrees/tree", Common: "main/.git"},
		}, trees, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		find := func(content string) (file string, ok bool) {
			size := hashSize(root, trees[0])
			file, ok = Object(dir, trees[0], BlobID([]byte(content), size), []byte(content))
			if again, found := Object(dir, trees[1], BlobID([]byte(content), size), []byte(content)); again != file || found != ok {
				t.Errorf("the worktree has %q, %v, the repository %q, %v", again, found, file, ok)
			}
			return file, ok
		}
		all := func(where string) {
			for i := range 300 {
				content := strings.Repeat("c", i+1)
				if file, ok := find(content); !ok || !strings.HasPrefix(file, "main/.git/objects/"+where) {
					t.Fatalf("%s, %s: %q, %v", format, content, file, ok)
				}
			}
			if file, ok := find("other"); ok {
				t.Errorf("%s: other is in %q", format, file)
			}
		}
		all("")
		// A loose object that is not what its name says does not count.
		id := BlobID([]byte("x"), hashSize(root, trees[0]))
		forged := BlobID([]byte("guess"), len(id))
		name := func(id []byte) string {
			s := hex.EncodeToString(id)
			return filepath.Join(main, ".git/objects", s[:2], s[2:])
		}
		content, err := os.ReadFile(name(id))
		if err != nil {
			t.Fatal(err)
		}
		write(t, name(forged), string(content))
		if file, ok := find("guess"); ok {
			t.Errorf("a forged object counts: %s", file)
		}
		if err := os.Remove(name(forged)); err != nil {
			t.Fatal(err)
		}
		git(t, main, "gc", "-q", "--prune=now")
		all("pack/")
		// An index of a pack that is not there.
		packs, err := filepath.Glob(filepath.Join(main, ".git/objects/pack/*.pack"))
		if err != nil || len(packs) != 1 {
			t.Fatal(packs, err)
		}
		if err := os.Rename(packs[0], filepath.Join(root, "pack")); err != nil {
			t.Fatal(err)
		}
		if file, ok := find("x"); ok {
			t.Errorf("found in %s", file)
		}
		symlink(t, filepath.Join(root, "pack"), packs[0])
		if file, ok := find("x"); ok {
			t.Errorf("found through a link in %s", file)
		}
	}
}

func FuzzPackIndex(f *testing.F) {
	root := f.TempDir()
	project(f, root)
	git(f, root, "gc", "-q")
	packs, err := filepath.Glob(filepath.Join(root, ".git/objects/pack/*.idx"))
	if err != nil || len(packs) != 1 {
		f.Fatal(packs, err)
	}
	text, err := os.ReadFile(packs[0])
	if err != nil {
		f.Fatal(err)
	}
	dir, err := os.Open(root)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { dir.Close() })
	f.Add(text, []byte("x"))
	f.Add(text[:len(text)/2], []byte("y"))
	f.Fuzz(func(t *testing.T, text, content []byte) {
		path := filepath.Join(root, "fuzz.idx")
		write(t, path, string(text))
		inPack(dir, "fuzz.idx", "file", BlobID(content, 20))
	})
}

// TestTreesElsewhere: a repository whose configuration says that its working
// tree is elsewhere has none here, and a git directory outside of the scanned
// directory is nothing that works inside.
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
		{Top: ".", Dir: ".git", Common: ".git"},
		{Top: "same", Dir: "same/.git", Common: "same/.git"},
		{Top: "sub", Dir: ".git/modules/sub", Common: ".git/modules/sub"},
		{Top: "deep/er", Dir: "deep/er/.git", Common: "deep/er/.git"},
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
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := Read(dir, "dir/file", 3); err != nil || f.Content != nil {
		t.Errorf("too long: %+v, %v", f, err)
	}
	if f, err := Read(dir, "link", 3); err != nil || string(f.Content) != "dir" || !f.Link {
		t.Errorf("link: %+v, %v", f, err)
	}
	for _, name := range []string{"dir", "link/file", "none", "../" + filepath.Base(root) + "/dir/file", "/etc/passwd"} {
		if f, err := Read(dir, name, 100); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
