package gitsync

import (
	"slices"
	"strings"
	"testing"

	"wolffia/internal/git/gitconfig"
)

// What a repository that arrives has of the sandbox's configuration.
func TestArrivalConfig(t *testing.T) {
	text := `[user]
	name = "Ann O'Neil"
	email = a@b
	signingkey = x
[remote "origin"]
	url = https://user:secret@example.org/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
	uploadpack = evil
[remote "ssh"]
	url = git@example.org:x/y
	fetch = +refs/*:refs/heads/*
	fetch = +refs/heads/main:refs/remotes/ssh/main
[remote "six"]
	url = ssh://git@[::1]:22/x
[branch "main"]
	remote = origin
	merge = refs/heads/main
[branch "local"]
	remote = .
	merge = refs/heads/main
[remote "a"]
	url = ext::sh -c evil
	fetch = +refs/heads/*:refs/remotes/a/*
[remote "b"]
	url = /host/path
[remote "c"]
	url = -u
[remote "d"]
	url = ssh://-oProxyCommand=evil/x
[remote "e"]
	url = file:///x
[remote "f"]
	url = git@-evil:x
[remote "--g"]
	url = https://example.org
[remote "h"]
	url = "https://example.org/\nx"
[branch "x"]
	remote = a
	merge = refs/heads/x
[branch "y"]
	remote = origin
	merge = --upload-pack=x
[core]
	fsmonitor = evil
	worktree = /x
[include]
	path = /x
[alias]
	x = !evil
[submodule "s"]
	url = https://example.org
	update = !evil
[extensions]
	objectformat = sha256
`
	kept, format, left := arrivalConfig(text)
	if format != "sha256" {
		t.Errorf("the format is %q", format)
	}
	want := []string{"ext::sh -c evil", "/host/path", "-u", "ssh://-oProxyCommand=evil/x", "file:///x", "git@-evil:x", "https://example.org", "https://example.org/\nx"}
	for i := range want {
		want[i] = `the remote "` + want[i] + `" is left out`
	}
	if !slices.Equal(left, want) {
		t.Errorf("left out are %q, want %q", left, want)
	}
	if got, want := gitconfig.Format(kept), `[remote "origin"]
	url = "https://example.org/x.git"
[remote "ssh"]
	url = "git@example.org:x/y"
[remote "six"]
	url = "ssh://git@[::1]:22/x"
[user]
	name = "Ann O'Neil"
	email = "a@b"
[remote "origin"]
	fetch = "+refs/heads/*:refs/remotes/origin/*"
[remote "ssh"]
	fetch = "+refs/heads/main:refs/remotes/ssh/main"
[branch "main"]
	remote = "origin"
	merge = "refs/heads/main"
[branch "local"]
	remote = "."
	merge = "refs/heads/main"
[branch "y"]
	remote = "origin"
`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"[core", strings.Repeat("[remote \"x\"]\nurl = https://x\n", 20_000), "\x00", "[extensions]\nobjectformat = ../x"} {
		if kept, format, _ := arrivalConfig(text); len(kept) > 0 || format != "" {
			t.Errorf("%.20q has %d settings, %q", text, len(kept), format)
		}
	}
}
