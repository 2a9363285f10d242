package gittable_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/gittable"
)

// rigScript makes the repository that each attack has one of: with a submodule, a linked
// worktree, a bare repository beside the files, a branch that conflicts, attributes that
// name drivers, and a remote outside of the codebase.
const rigScript = setUp + `
git worktree add -q wt -b wt
git clone -q --bare . bare.git
for d in .git bare.git .git/modules/sub; do rm -f $d/hooks/*; echo >$d/hooks/pre-commit.sample '#!/bin/sh'; done
printf 'bare.git\nwt\n' >.git/info/exclude
mkdir tools inc
git config include.path ../inc/settings
git -C bare.git config --unset remote.origin.url
`

// A rigging makes copies of the repository of rigScript.
type rigging struct{ template, host string }

func newRigging(t testing.TB, host string) rigging {
	t.Helper()
	dir := filepath.Join(filepath.Dir(host), "template")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, dir, rigScript); strings.Contains(out, "(exit") {
		t.Fatal(out)
	}
	return rigging{dir, host}
}

// copies makes copies below the codebase, in the place of what is there.
func (r rigging) copies(t testing.TB, names ...string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("set -e\n")
	for _, name := range names {
		fmt.Fprintf(&b, `chmod -R u+rwx %[1]s 2>/dev/null || :
rm -rf %[1]s
mkdir -p "$(dirname %[1]s)"
cp -a %[2]s/repo %[1]s
echo "gitdir: %[3]s/%[1]s/.git/worktrees/wt" >%[1]s/wt/.git
echo "%[3]s/%[1]s/wt/.git" >%[1]s/.git/worktrees/wt/gitdir
sed -i 's|\.\./remote.git|%[2]s/remote.git|' %[1]s/.git/config
`, name, r.template, r.host)
	}
	if out := sh(t, r.host, b.String()); out != "" {
		t.Fatal(out)
	}
}

// evil is a configuration with what runs at everyday commands, and its hooks.
func evil(t testing.TB, host string, m marks) {
	t.Helper()
	var b strings.Builder
	b.WriteString(harmless)
	for _, key := range []string{
		"core.fsmonitor", "core.editor", "core.pager", "core.sshCommand", "core.alternateRefsCommand", "diff.external", "diff.mark.command",
		"diff.mark.textconv", "merge.mark.driver", "filter.mark.clean", "filter.mark.smudge", "remote.origin.uploadpack",
		"remote.origin.receivepack", "credential.helper", "gpg.program", "sequence.editor", "submodule.sub.update", "interactive.diffFilter",
	} {
		value := m.program(t, key)
		if key == "submodule.sub.update" {
			value = "!" + value
		}
		b.WriteString(gittable.Lines(key + "=" + value))
	}
	b.WriteString(gittable.Lines("commit.gpgSign=true\ncore.hooksPath=" + filepath.Join(m.dir, "hooks core.hooksPath")))
	writeFile(t, filepath.Join(host, "evil/config"), b.String(), 0o644)
	script, err := os.ReadFile(filepath.Join(m.dir, "mark"))
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range hookNames {
		writeFile(t, filepath.Join(host, "evil/hooks", hook), string(script), 0o755)
	}
}

// A host does what the user's own programs do.
type host struct {
	testing.TB
	places
	m       marks
	stopped chan struct{} // of a loop
	looping chan string
}

func (h *host) do(o order) string {
	path := filepath.Join(h.Host, o.Dir)
	switch o.Do {
	case "sh":
		return sh(h, path, o.Script)
	case "look":
		return strings.Join(look(h.Host, path, h.Marks), "\n")
	case "marks":
		return h.m.take(h)
	case "get":
		text, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return string(text)
	case "same": // "" if the file has that content, or is not there if it is nil
		text, err := os.ReadFile(path)
		info, lerr := os.Lstat(path)
		switch {
		case o.Content == nil && os.IsNotExist(lerr), err == nil && o.Content != nil && bytes.Equal(text, o.Content) && info.Mode().IsRegular():
			return ""
		case lerr != nil:
			return "gone"
		}
		return "changed"
	case "put":
		_ = os.Remove(path)
		writeFile(h, path, string(o.Content), 0o644)
	case "remove":
		_ = os.Remove(path)
	case "restore":
		rigging{filepath.Join(filepath.Dir(h.Host), "template"), h.Host}.copies(h, o.Dir)
	case "loop":
		h.loop(o)
	case "stop":
		return h.stop()
	}
	return ""
}

// loop runs a script again and again, until stop.
func (h *host) loop(o order) {
	h.stopped, h.looping = make(chan struct{}), make(chan string, 1)
	go func() { // ends at stop
		var out string
		for {
			select {
			case <-h.stopped:
				h.looping <- out
				return
			default:
				out = sh(h, filepath.Join(h.Host, o.Dir), o.Script)
			}
		}
	}()
}

// stop ends a loop, and returns what its last run has printed.
func (h *host) stop() string {
	if h.stopped == nil {
		return ""
	}
	close(h.stopped)
	h.stopped = nil
	return <-h.looping
}
