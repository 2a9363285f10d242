package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"wolffia/runtime"
)

// git measures what it costs that git crosses the border as commits: commands that change nothing, one commit and a thousand, and
// a large repository; each beside plain git, turn by turn.
func (b *bench) git() error {
	if _, err := exec.LookPath("git"); err != nil {
		b.notMeasured("git across the border", err)
		return nil
	}
	for _, size := range []struct {
		files, refs, rounds int
		called              string
	}{{20, 1, 21, ""}, {100_000, 5000, 5, ", 100,000 files and 5,000 references"}} {
		if err := b.gitRepository(size.files, size.refs, size.rounds, size.called); err != nil {
			return err
		}
	}
	return nil
}

// A gitWork is a script in a repository, with the bar of what it may take beyond plain git, in milliseconds.
type gitWork struct {
	name, script, bar string
}

var gitWorks = []gitWork{
	{"true", "true", ""},
	{"git status", "git status --porcelain", ""},
	{"git stash of one change", "echo x >>f0; git stash -q", ""},
	{"one commit", "echo x >>f0; git commit -qm x f0", "100"},
	{"1,000 commits", `t=$(git write-tree); p=$(git rev-parse HEAD); { for i in $(seq 1000); do printf 'commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\n' $i; [ $i -gt 1 ] || echo "from $p"; done; } | git fast-import --quiet --force`, "300"},
}

// gitRepository measures over one repository.
func (b *bench) gitRepository(files, refs, rounds int, called string) error {
	base, err := os.MkdirTemp("", "wolffia-bench-git")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o755); err != nil {
		return err
	}
	repo, plain := filepath.Join(base, "repo"), filepath.Join(base, "plain")
	fill := exec.Command("sh", "-ec", fmt.Sprintf(`git init -q -b main repo; cd repo; git config user.name a; git config user.email a@b; git config gc.auto 0
i=0; while [ $i -lt %d ]; do d=d$((i / 500)); [ $i -lt 500 ] && d=. || mkdir -p $d; echo $i >$d/f$i; i=$((i+1)); done
git add .; git commit -qm one; h=$(git rev-parse HEAD); i=0; while [ $i -lt %d ]; do echo "create refs/remotes/origin/b$i $h"; i=$((i+1)); done | git update-ref --stdin; git pack-refs --all
cd ..; cp -a repo plain; git -C plain update-index -q --refresh; git -C repo update-index -q --refresh`, files, refs))
	fill.Dir = base
	if out, err := fill.CombinedOutput(); err != nil {
		return fmt.Errorf("make a repository: %w: %s", err, out)
	}
	var starts times
	for range 5 {
		d, err := took(func() error {
			s, err := b.rt.Create(b.ctx, &runtime.SandboxConfig{CodebasePath: repo, Permissions: b.rules})
			if err == nil {
				err = b.rt.Start(b.ctx, s.ID)
			}
			if err == nil {
				err = b.execIn(s.ID, "git", "rev-parse", "HEAD")
			}
			if err == nil {
				err = b.rt.Destroy(b.ctx, s.ID)
			}
			return err
		})
		if err != nil {
			return err
		}
		starts = append(starts, d)
	}
	b.row("create, git rev-parse HEAD, destroy"+called, starts, "")
	s, err := b.rt.Create(b.ctx, &runtime.SandboxConfig{CodebasePath: repo, Permissions: b.rules})
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, s.ID) }()
	if err := b.rt.Start(b.ctx, s.ID); err != nil {
		return err
	}
	for _, w := range gitWorks {
		var inside, outside times
		for range rounds {
			d, err := took(func() error { return b.execIn(s.ID, "sh", "-ec", w.script) })
			if err != nil {
				return err
			}
			inside = append(inside, d)
			cmd := exec.Command("sh", "-ec", w.script)
			cmd.Dir = plain
			if d, err = took(cmd.Run); err != nil {
				return err
			}
			outside = append(outside, d)
		}
		b.row("exec of "+w.name+", with what crosses"+called, inside, w.bar)
		b.row("plain "+w.name+called, outside, "")
	}
	out, err := exec.Command("git", "-C", repo, "rev-list", "--count", "HEAD").Output()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return err
	}
	if made := 1000 * rounds; n < made {
		return fmt.Errorf("the host has %d commits, and git inside has made %d", n, made)
	}
	return nil
}
