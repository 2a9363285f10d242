package gitdiff

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

// look shows all that git knows of the repositories below the current directory, without object names that no reference
// leads to; with private set also what a sandbox keeps for itself.
const look = `
for git in $(find . -name .git -prune | sort); do
	cd "${git%/.git}"
	echo "== $git"
	git status --porcelain=v2 --branch --ignored | sort
	git symbolic-ref -q HEAD || git rev-parse HEAD
	git for-each-ref
	git log --all --format='%H %T %P|%an|%ae|%ad|%cn|%ce|%cd|%B'
	git ls-files -s
	git stash list --format=%gs
	[ -z "$private" ] || { git reflog --format='%H %gs|%gn'; git worktree list --porcelain; git config --local --list | sort; }
	git fsck --strict --no-dangling
	cd "$OLDPWD"
done 2>&1
find . -name .git -prune -o ! -type d -printf '%p %y %m %l\n' | sort
find . '(' -name .git -o -name '*.git' ')' -prune -o -type f -print0 | sort -z | xargs -0 sha1sum
`

// A place is where scenarios are worked on: on the host, or in a sandbox.
type place struct {
	dir string // of the host, also in the sandbox
	run func(ctx context.Context, script string) *exec.Cmd
}

// A host is a user's account.
type host struct {
	home string
	env  []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{home: home, env: []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "WOLFFIA_STATE_DIR=" + filepath.Join(home, "state"), "GIT_CONFIG_NOSYSTEM=1",
		"LANG=C.UTF-8", "TZ=UTC", "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"),
	}}
	const config = "[user]\n\tname = Zoe \"Z\"\n\temail = zoe@example.invalid\n[init]\n\tdefaultBranch = master\n[advice]\n\tdetachedHead = false\n[safe]\n\tdirectory = *\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

// command returns a command of the user's.
func (h *host) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, h.env
	return cmd
}

// says is what a command prints that must succeed.
func (h *host) says(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	cmd := h.command(ctx, dir, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %.200q: got err %v, out %s; want err == nil", name, args, err, out)
	}
	return string(out)
}

// Git in a sandbox leaves the history, the index and the files that it leaves without.
func TestHistory(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	compare(t, "bwrap", picked(4), false)
}

// Git in a copied codebase does so too, and the host has the files that it had.
func TestHistoryInCopy(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	compare(t, "bwrap", picked(12), true)
}

func TestHistoryInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	compare(t, "gvisor", picked(12), false)
}

// picked returns the scenarios to try: all in a full run, else one of every, and those that are
// tried often.
func picked(every int) (some []Scenario) {
	for i, s := range Scenarios {
		if s.Often || testenv.Picked(i, every) {
			some = append(some, s)
		}
	}
	return some
}

// compare works through scenarios on the host and in one sandbox, whose codebase can be a copied one.
func compare(t *testing.T, backend string, scenarios []Scenario, copied bool) {
	t.Parallel()
	testenv.Unprivileged(t) // as root a sandbox has another user
	testenv.Tools(t, "git")
	h := newHost(t)
	wolffia := filepath.Join(testbin.Dir(t), "wolffia")
	without, with := filepath.Join(h.home, "without"), filepath.Join(h.home, "inside")
	for _, dir := range []string{without, with} {
		for _, s := range scenarios {
			if err := os.MkdirAll(filepath.Join(dir, s.Name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The same bytes on both sides: copies keep the index valid.
	template := filepath.Join(h.home, "template")
	if err := os.Mkdir(template, 0o755); err != nil {
		t.Fatal(err)
	}
	h.says(t, template, "sh", "-eu", "-c", Head+Setup)
	h.says(t, h.home, "sh", "-eu", "-c", `for d in "$@"; do for s in "$d"/*; do cp -a template/. "$s"; done; done`, "sh", without, with)
	create := []string{"create", "--runtime", backend}
	if copied {
		create = append(create, "--cow")
	}
	before := h.says(t, with, "sh", "-c", files)
	box := strings.TrimSpace(lastLine(h.says(t, with, wolffia, create...)))
	t.Cleanup(func() { h.says(t, with, wolffia, "rm", "-f", box) })

	sides := []place{
		{without, func(ctx context.Context, script string) *exec.Cmd {
			return h.command(ctx, without, "sh", "-c", script)
		}},
		{with, func(ctx context.Context, script string) *exec.Cmd {
			return h.command(ctx, with, wolffia, "exec", box, "--", "sh", "-c", script)
		}},
	}
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			inside := sides[1]
			if s.Refused != nil {
				said, err := inside.work(t, s.Name, s.Script)
				if err == nil || !inOrder(said, s.Refused) {
					t.Errorf("inside: %v, and it should print %q:\n%s", err, s.Refused, said)
				}
				add := []string{"policy", "add", box}
				for _, name := range s.Reveal {
					add = append(add, "--reveal", "/"+path.Join(s.Name, "repo", name)+"=write")
				}
				h.says(t, with, wolffia, add...)
			}
			var left, arrived [2]string
			mine := h.says(t, with, "sh", "-c", own)
			for i, side := range sides {
				script := s.Script
				if i == 1 && s.Again != "" {
					script = s.Again
				}
				said, err := side.work(t, s.Name, script)
				if err != nil {
					said += "\n" + err.Error()
				}
				if err != nil && i == 0 {
					t.Fatalf("without wolffia: %s", said)
				}
				if i == 0 && s.Hidden != "" {
					if !strings.Contains(said, s.Hidden) {
						t.Errorf("without wolffia, there is no %q: %s", s.Hidden, said)
					}
					said = strings.Replace(said, s.Hidden, "", 1)
				}
				where, seen := filepath.Join(side.dir, s.Name), ""
				if i == 1 {
					seen = h.says(t, with, wolffia, "exec", "--cwd", s.Name, box, "--", "sh", "-c", "private=1\n"+look)
				} else {
					seen = h.says(t, where, "sh", "-c", "private=1\n"+look)
				}
				seen = hiddenLine.ReplaceAllString(seen, "") // the rules hide it
				said = syncLine.ReplaceAllString(said, "")
				left[i] = strings.ReplaceAll(said+"\n"+seen, side.dir, "DIR")
				if !copied { // git on the host renews an index when it looks
					arrived[i] = strings.ReplaceAll(h.says(t, where, "sh", "-c", "private=\n"+look), side.dir, "DIR")
				}
			}
			if diff := cmp.Diff(left[0], left[1]); diff != "" {
				t.Errorf("inside: -without +with:\n%s", diff)
			}
			for _, line := range spoiled(mine, h.says(t, with, "sh", "-c", own)) {
				t.Errorf("the host's git directories: %s", line)
			}
			if diff := cmp.Diff(arrived[0], arrived[1]); diff != "" && !s.Differs {
				t.Errorf("on the host: -without +with:\n%s", diff)
			}
		})
	}
	if !copied {
		return
	}
	if diff := cmp.Diff(before, h.says(t, with, "sh", "-c", files)); diff != "" {
		t.Errorf("the host's files have changed before they were applied: -before +after:\n%s", diff)
	}
}

// files shows all that is below the current directory, git's own files too, with all but the times of access.
const files = `find . ! -type d -printf '%p %y %m %l %s %T@\n' | sort; find . -type d -printf '%p %m %T@\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha1sum`

// hiddenLine is a line about the file of Setup that the rules of a sandbox hide.
var hiddenLine = regexp.MustCompile(`(?m)^.*\.env\.local\b.*\n`)

// syncLine is a line of wolffia's about what has crossed.
var syncLine = regexp.MustCompile(`(?m)^wolffia: in .*: .* (was (rewritten|deleted) in the sandbox: it was [0-9a-f]+|is left out)\n?`)

// work runs the script of the scenario called name, and returns what it prints.
func (p *place) work(t *testing.T, name, script string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	out, err := p.run(ctx, "exec 2>&1; cd "+name+"/repo; set -eu\n"+Head+script).CombinedOutput()
	return string(out), err
}

// inOrder reports whether text has all parts, one behind the other.
func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, after, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
