// Package gituser finds what of the user's own git configuration holds in a sandbox too.
package gituser

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitconfig"
	"wolffia/internal/gitguard"
)

// maxFile is the most that is read of a file, in bytes.
const maxFile = 64 << 10

const (
	maxDepth = 10 // of included files, as in git
	maxFiles = 64 // that are read
)

// A Config is what holds in a sandbox too.
type Config struct {
	Settings []gitconfig.Setting // in the order of precedence, the highest last
	Ignore   string              // patterns of files that git ignores: gitignore(5)
}

// Read reads the configurations that git reads for this user beside a repository's own, with
// what they include, and returns the harmless settings. git is not run. getenv is
// [os.Getenv]. Conditions of includes (gitdir:, gitdir/i:) hold or not for the repository in
// the directory codebase; empty: they do not hold. Other conditions do not hold.
//
// The error names files that cannot be used. The rest is returned all the same.
func Read(getenv func(string) string, codebase string) (*Config, error) {
	r := &reader{home: getenv("HOME"), codebase: codebase}
	xdg := cmp.Or(getenv("XDG_CONFIG_HOME"), r.expand("~/.config", ""))
	if off := strings.ToLower(getenv("GIT_CONFIG_NOSYSTEM")); off == "" || off == "0" || off == "false" || off == "no" || off == "off" {
		r.file(cmp.Or(getenv("GIT_CONFIG_SYSTEM"), "/etc/gitconfig"), 0)
	}
	if global := getenv("GIT_CONFIG_GLOBAL"); global != "" {
		r.file(global, 0)
	} else {
		r.file(filepath.Join(xdg, "git/config"), 0)
		r.file(r.expand("~/.gitconfig", ""), 0)
	}
	if r.ignore == "" {
		r.ignore = filepath.Join(xdg, "git/ignore")
	}
	c := &Config{Settings: r.settings}
	c.Ignore = r.read(r.ignore)
	return c, errors.Join(r.failed...)
}

// A reader collects settings.
type reader struct {
	home, codebase string
	files          int // that were read
	settings       []gitconfig.Setting
	ignore         string // the file with patterns that the settings name
	failed         []error
}

// file adds the settings of a file.
func (r *reader) file(name string, depth int) {
	if depth > maxDepth {
		r.fail(name, fmt.Errorf("it is included through more than %d files", maxDepth))
		return
	}
	text := r.read(name)
	settings, err := gitconfig.Parse(text)
	if err != nil {
		r.fail(name, err)
		return
	}
	for i := range settings {
		s := &settings[i]
		switch {
		case s.Name == "include.path", s.Section() == "includeif" && s.Key() == "path" && r.holds(s, name):
			r.file(r.expand(s.Value, name), depth+1)
		case s.Name == "core.excludesfile":
			r.ignore = cmp.Or(r.expand(s.Value, name), os.DevNull)
		case gitguard.Harmless(s) && utf8.ValidString(s.Value):
			r.settings = append(r.settings, *s)
		}
	}
}

func (r *reader) fail(name string, err error) {
	r.failed = append(r.failed, fmt.Errorf("git configuration %s: %w", name, err))
}

// expand returns the path that a setting in a file names.
func (r *reader) expand(path, file string) string {
	rest, home := strings.CutPrefix(path, "~/")
	switch {
	case home && r.home == "":
		return ""
	case home:
		return filepath.Join(r.home, rest)
	case path == "" || filepath.IsAbs(path):
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// holds reports whether the condition of an include in a file holds.
func (r *reader) holds(s *gitconfig.Setting, file string) bool {
	condition, _ := s.Sub()
	keyword, pattern, _ := strings.Cut(condition, ":")
	if r.codebase == "" || pattern == "" {
		return false
	}
	gitdir := filepath.Join(r.codebase, ".git")
	switch keyword {
	case "gitdir":
	case "gitdir/i":
		gitdir, pattern = strings.ToLower(gitdir), strings.ToLower(pattern)
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern = strings.ToLower(r.home) + "/" + rest
		}
	default:
		return false
	}
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = r.home + "/" + rest
	} else if rest, ok := strings.CutPrefix(pattern, "./"); ok {
		pattern = filepath.Dir(file) + "/" + rest
	} else if pattern[0] != '/' {
		pattern = "**/" + pattern
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return match(strings.Split(pattern, "/"), strings.Split(gitdir, "/"))
}

// match reports whether the parts of a path match those of a pattern, in which ** stands for
// any number of parts.
func match(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		for i := range len(path) + 1 {
			if match(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	if len(path) == 0 {
		return false
	}
	ok, err := filepath.Match(strings.ReplaceAll(pattern[0], "[!", "[^"), path[0])
	return ok && err == nil && match(pattern[1:], path[1:])
}

// read returns the content of a regular file; empty if there is none that the user may read.
func (r *reader) read(name string) string {
	if name == "" {
		return ""
	}
	if r.files++; r.files > maxFiles {
		r.fail(name, fmt.Errorf("more than %d files are included", maxFiles))
		return ""
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOTDIR) {
			r.fail(name, err)
		}
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return "" // such as /dev/null
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		r.fail(name, err)
	case len(b) > maxFile:
		r.fail(name, fmt.Errorf("it is longer than %d bytes", maxFile))
	case !utf8.Valid(b) && name == r.ignore, strings.ContainsRune(string(b), 0):
		r.fail(name, errors.New("it is not a text"))
	default:
		return string(b)
	}
	return ""
}
