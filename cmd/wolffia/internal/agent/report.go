package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"wolffia/local"
	"wolffia/ops"
	"wolffia/runtime"
)

// A Report says what an agent has done. Names and texts come from inside.
type Report struct {
	Agent   string          `json:"agent"`
	Took    time.Duration   `json:"-"`
	Result  *runtime.Result `json:"-"`
	Files   []string        `json:"files"`           // that were changed, below the repository or the codebase
	Commits []string        `json:"commits"`         // made meanwhile: the abbreviated hash, and the subject
	Hosts   []string        `json:"hosts,omitempty"` // that it has reached; nil: it was not asked
	Copied  bool            `json:"copied"`          // the changes are asked about afterwards: there are no Files
}

// most is how many names a report has of a kind.
const most = 10

// Lines returns the report for people.
func (r *Report) Lines() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	unit := time.Second
	if r.Took < 10*time.Second {
		unit = 100 * time.Millisecond
	}
	add("%s has ended after %v", r.Agent, r.Took.Round(unit))
	if !r.Copied {
		add("  files changed: %s", listed(r.Files))
	}
	add("  commits: %d", len(r.Commits))
	for i, c := range r.Commits {
		if i == most {
			add("    and %d more", len(r.Commits)-most)
			break
		}
		add("    %s", c)
	}
	if r.Hosts != nil {
		add("  hosts reached: %s", listed(r.Hosts))
	}
	var denied, refused []string
	for _, d := range r.Result.Denied {
		denied = append(denied, d.Path)
	}
	for _, d := range r.Result.Refused {
		refused = append(refused, d.Host())
	}
	add("  denied by the rules: %s", counted(denied, r.Result.DeniedMore))
	add("  refused by the network: %s", counted(refused, r.Result.RefusedMore))
	return lines
}

// listed returns the number of names and the first of them.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d: %s", len(names), strings.Join(names[:min(most, len(names))], ", "))
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// counted returns names, each once, and says that there were more events.
func counted(names []string, more int) string {
	slices.Sort(names)
	text := listed(slices.Compact(names))
	if more > 0 {
		text += fmt.Sprintf("; and %d times more", more)
	}
	return text
}

// Look asks a sandbox, and the codebase, what has changed since a time. What does not answer is left
// out.
func Look(ctx context.Context, rt *local.Runtime, id string, c *runtime.SandboxConfig, since time.Time) *Report {
	r := &Report{Copied: c.CopyOnWrite, Files: []string{}, Commits: []string{}}
	if c.Network == runtime.NetworkFiltered {
		if hosts, err := rt.Reached(ctx, id); err == nil {
			r.Hosts = append([]string{}, hosts...)
		}
	}
	if c.CodebasePath == "" {
		return r
	}
	root, err := os.OpenRoot(c.CodebasePath)
	if err != nil {
		return r
	}
	defer root.Close()
	git := func(args ...string) (string, bool) {
		res, err := rt.Exec(ctx, id, &runtime.Command{
			Command: append([]string{"git", "--no-optional-locks"}, args...), Timeout: gitLimit, MaxOutput: 1 << 20,
		})
		if err != nil || res.ExitCode != 0 {
			return "", false
		}
		return string(res.Stdout), true
	}
	// git counts whole seconds
	made := []string{"log", "--branches", "HEAD", "--since=" + since.UTC().Format(time.RFC3339)}
	top, is := git("rev-parse", "--show-toplevel")
	below, in := strings.CutPrefix(strings.TrimSpace(top), c.MountPointOrDefault())
	if !is || !in {
		if !r.Copied {
			r.Files = changed(root.FS(), since)
		}
		return r
	}
	commits, _ := git(append(made, "--format=%h %s")...)
	for line := range strings.Lines(commits) {
		r.Commits = append(r.Commits, strings.TrimSpace(line))
	}
	if r.Copied {
		return r
	}
	committed, _ := git(append(made, "--format=", "--name-only", "-z")...)
	for name := range strings.SplitSeq(committed, "\x00") {
		if name != "" {
			r.Files = append(r.Files, name)
		}
	}
	limited, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	status, _ := ops.AskGitStatus(limited, rt, id, "", "--untracked-files=all")
	at := strings.TrimPrefix(below, "/")
	for _, s := range status {
		if touched(root, path.Join(at, s.Path), since) {
			r.Files = append(r.Files, s.Path)
		}
	}
	slices.Sort(r.Files)
	r.Files = slices.Compact(r.Files)
	return r
}

// gitLimit bounds each question to git.
const gitLimit = 20 * time.Second

// touched reports whether a file was changed since a time; of one that is gone, whether its
// directory was.
func touched(root *os.Root, name string, since time.Time) bool {
	st, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		return touched(root, path.Dir(name), since)
	}
	return err == nil && later(st, since)
}

// later reports whether a file was changed since a time: its attributes too, since a copy may have
// an old time of its own.
func later(st fs.FileInfo, since time.Time) bool {
	own, is := st.Sys().(*syscall.Stat_t)
	return is && !time.Unix(own.Ctim.Unix()).Before(since)
}

// maxWalk is how many files are looked at without git.
const maxWalk = 50000

// changed returns the files that were changed since a time, those of git left out.
func changed(fsys fs.FS, since time.Time) (files []string) {
	seen := 0
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		seen++
		switch {
		case seen > maxWalk:
			return fs.SkipAll
		case err != nil:
			return nil // it has gone, or is closed: what is beside it counts
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if st, err := d.Info(); err == nil && later(st, since) {
			files = append(files, name)
		}
		return nil
	})
	return files
}
