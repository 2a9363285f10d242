package gittable_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"wolffia/internal/test/gittable"
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
git config --add include.path ../absent/dir/settings
git -C bare.git config core.hooksPath ../absenthooks
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
	m marks
}

func (h *host) do(o order) string {
	path := filepath.Join(h.Host, o.Dir)
	switch o.Do {
	case "sh":
		return sh(h, path, o.Script)
	case "look":
		return strings.Join(look(h.Host, path, h.Marks), "\n")
	case "lost": // what a rig had
		lost := ""
		for _, dir := range []string{".git", "bare.git", ".git/modules/sub"} {
			for _, name := range []string{"HEAD", "objects", "refs", "config"} {
				if info, err := os.Lstat(filepath.Join(path, dir, name)); err != nil || info.Mode()&0o400 == 0 {
					lost += "\nlost " + filepath.Join(dir, name)
				}
			}
		}
		return lost
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
	case "put", "remove": // by another process: the server takes its own for what it does for the inside
		script := `rm -f "$0"`
		if o.Do == "put" {
			script = `cat >"$0.new" && mv "$0.new" "$0"`
		}
		cmd := exec.Command("sh", "-c", script, path)
		cmd.Stdin = bytes.NewReader(o.Content)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.Errorf("%s %s: %v: %s", o.Do, o.Dir, err, out)
		}
	case "restore":
		rigging{filepath.Join(filepath.Dir(h.Host), "template"), h.Host}.copies(h, o.Dir)
	case "work":
		return h.work(o)
	}
	return ""
}

// A day is a script that the host runs in a directory of the codebase.
type day struct{ Dir, Script string }

// work has the host run scripts, some at a time, and returns what they print, by their
// directory.
func (c *inside) work(t testing.TB, days []day) (said map[string]string) {
	t.Helper()
	content, err := json.Marshal(days)
	if err == nil {
		err = json.Unmarshal([]byte(c.host(t, order{Do: "work", Content: content})), &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func (h *host) work(o order) string {
	var days []day
	if err := json.Unmarshal(o.Content, &days); err != nil {
		h.Error(err)
	}
	said := make([]string, len(days))
	var group sync.WaitGroup
	places := make(chan struct{}, 4)
	for i, d := range days {
		group.Go(func() {
			places <- struct{}{}
			said[i] = sh(h, filepath.Join(h.Host, d.Dir), d.Script)
			<-places
		})
	}
	group.Wait()
	all := map[string]string{}
	for i, d := range days {
		all[d.Dir] = said[i]
	}
	text, err := json.Marshal(all)
	if err != nil {
		h.Error(err)
	}
	return string(text)
}
