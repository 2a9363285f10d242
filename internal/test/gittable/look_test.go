package gittable_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// look returns what is wrong with a codebase, or with a part of it, for whoever reads it
// with git, libgit2, go-git or JGit: configurations, hooks and lists of commands that
// came from inside, what leads to one, and repositories where nobody expects one. It
// runs nothing. marks is what is in each text from inside, root the codebase.
//
// What a reader takes for a repository: git 2.55 (setup.c) wants HEAD to be a link to
// refs/ or a file that names a ref or an object, and may search (X_OK) objects and refs,
// of which commondir says where they are; libgit2 1.9 (repository.c) any file HEAD and
// directories objects and refs; JGit 7 reftable instead of refs as well; go-git 6 HEAD
// alone, in .git or in the directory that it is given, but it runs nothing.
func look(root, dir, marks string) (wrong []string) {
	say := func(path, format string, args ...any) {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			rel = path
		}
		wrong = append(wrong, rel+" "+fmt.Sprintf(format, args...))
	}
	evil := func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && bytes.Contains(text, []byte(marks))
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // a sandbox can take permissions away
		}
		if filepath.Base(path) == ".git" && !d.IsDir() {
			lookPointer(root, path, d, say)
		}
		if !d.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		named := byName(rel)
		if whole(path) && !named {
			say(path, "is a repository by its content")
		}
		if !whole(path) && !(named && strings.HasSuffix(path, ".git")) {
			return nil
		}
		for _, name := range []string{"config", "config.worktree"} {
			file := filepath.Join(path, name)
			switch info, err := os.Lstat(file); {
			case err != nil:
			case info.Mode()&os.ModeSymlink != 0:
				say(file, "is a symbolic link")
			case evil(file):
				say(file, "came from inside")
			}
		}
		lookHooks(filepath.Join(path, "hooks"), say)
		if text, err := os.ReadFile(filepath.Join(path, "commondir")); err == nil {
			if to := strings.TrimSpace(string(text)); to != "" && to != "../.." || to != "" && filepath.Base(filepath.Dir(path)) != "worktrees" {
				say(path, "has a commondir %q", to)
			}
		}
		for _, name := range []string{"remotes", "branches"} {
			entries, _ := os.ReadDir(filepath.Join(path, name))
			for _, e := range entries {
				say(filepath.Join(path, name, e.Name()), "is there")
			}
		}
		if text, err := os.ReadFile(filepath.Join(path, "objects/info/alternates")); err == nil {
			for line := range strings.Lines(string(text)) {
				to := strings.TrimSpace(line)
				if !filepath.IsAbs(to) {
					to = filepath.Join(path, "objects", to)
				}
				if r, err := filepath.Rel(root, to); err != nil || strings.HasPrefix(r, "..") && !strings.Contains(to, "/workspace/") {
					say(path, "has objects of %s", to)
				}
			}
		}
		for _, name := range []string{"rebase-merge/git-rebase-todo", "rebase-merge/git-rebase-todo.backup"} {
			if evil(filepath.Join(path, name)) {
				say(filepath.Join(path, name), "has a command")
			}
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

// lookHooks looks at a directory of hooks.
func lookHooks(dir string, say func(path, format string, args ...any)) {
	if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
		say(dir, "is a symbolic link")
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sample") {
			say(filepath.Join(dir, e.Name()), "is there")
		}
	}
}

// lookPointer looks at a .git that is no directory.
func lookPointer(root, path string, d fs.DirEntry, say func(path, format string, args ...any)) {
	to := ""
	if d.Type()&os.ModeSymlink != 0 {
		to, _ = os.Readlink(path)
	} else {
		text, err := os.ReadFile(path)
		after, ok := strings.CutPrefix(string(text), "gitdir:")
		if err != nil || !ok {
			return
		}
		to = strings.TrimSpace(after)
		if line, _, more := strings.Cut(to, "\n"); more || after != " "+to && after != " "+to+"\n" {
			say(path, "is read differently by different readers: %q", line)
			return
		}
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	if strings.Contains(to, "/workspace/") {
		return // made inside; there is nothing on the host
	}
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	rel, err := filepath.Rel(root, to)
	if err != nil || strings.HasPrefix(rel, "..") || !byName(rel) && whole(to) {
		say(path, "leads to %s", to)
	}
}

// whole reports whether a directory has what makes one a repository to some reader.
func whole(dir string) bool {
	has := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	return has("HEAD") && (has("commondir") || has("objects") && (has("refs") || has("reftable")))
}

// byName reports whether a path is that of a git directory by its name.
func byName(rel string) bool {
	names := strings.Split(rel, "/")
	for i := len(names) - 1; i >= 0; i-- {
		if !strings.HasSuffix(names[i], ".git") {
			continue
		}
		rest := names[i+1:]
		return len(rest) == 0 || rest[0] == "modules" && len(rest) > 1 || rest[0] == "worktrees" && len(rest) == 2
	}
	return false
}
