package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/gitpairs"
)

// What a repository that arrives has of the sandbox's configuration.
func TestArrivedConfig(t *testing.T) {
	said := "sha1\x00" + strings.Join([]string{
		"user.name\nAnn O'Neil", "user.email\na@b", "remote.origin.url\nhttps://example.org/x.git", "remote.origin.fetch\n+refs/heads/*:refs/remotes/origin/*",
		"remote.ssh.url\ngit@example.org:x/y", "branch.main.remote\norigin", "branch.main.merge\nrefs/heads/main",
		"remote.a.url\next::sh -c evil", "remote.a.fetch\n+refs/heads/*:refs/remotes/a/*", "remote.b.url\n/host/path", "remote.c.url\n-u", "remote.ssh.fetch\n+refs/*:refs/heads/*",
		"remote.d\n[core].url\nhttps://x", "user.name\na\n[core]", "branch.x.merge\n--upload-pack=x", "core.fsmonitor\nevil", "remote.e.vcs\nx", "alone",
	}, "\x00") + "\x00"
	config, left, err := arrivedConfig(said)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ext::sh -c evil", "/host/path", "-u"}; !slices.Equal(left, want) {
		t.Errorf("left out: %q, want %q", left, want)
	}
	_, own, _ := strings.Cut(config, `logallrefupdates = "true"`+"\n")
	want := `[user]
	name = "Ann O'Neil"
	email = "a@b"
[remote "origin"]
	url = "https://example.org/x.git"
	fetch = "+refs/heads/*:refs/remotes/origin/*"
[remote "ssh"]
	url = "git@example.org:x/y"
[branch "main"]
	remote = "origin"
	merge = "refs/heads/main"
`
	if own != want {
		t.Errorf("got %s, want %s", own, want)
	}
	if _, _, err := arrivedConfig("sha1; evil\x00"); err == nil {
		t.Error("no error for another format")
	}
}

// A repository that arrives is made over no link that the sandbox has put there.
func TestMakeRepositoryOverLink(t *testing.T) {
	codebase, other := t.TempDir(), t.TempDir()
	if err := os.Symlink(other, filepath.Join(codebase, "link")); err != nil {
		t.Fatal(err)
	}
	f := &gitpairs.Pair{Private: "link/.git", Host: filepath.Join(codebase, "link/.git"), Place: "link", Made: true}
	if err := makeRepository(codebase, f, ""); err == nil {
		t.Error("no error")
	}
	if names, err := os.ReadDir(other); err != nil || len(names) > 0 {
		t.Errorf("behind the link: %v, %v", names, err)
	}
}
