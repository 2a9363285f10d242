// Package gituser finds the settings of the user's own git configuration that apply in a sandbox
// too.
//
// The sandbox has them as git's configuration of the system level (GIT_CONFIG_SYSTEM), so that a
// repository's own configuration and "git config" inside outrank them. GIT_AUTHOR_NAME and
// GIT_CONFIG_COUNT would outrank these; a file /etc/gitconfig would hide an image's own; "git
// config --global" inside has to write ~/.gitconfig. The package reads the files itself, since git
// would read the codebase's .git to decide conditions.
package gituser

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitconfig"
)

const (
	maxText  = 128 << 10 // bytes that are read of all files
	maxDepth = 10        // of included files, as in git
	maxFiles = 64        // that are read
)

// A Place is where the configuration is to hold.
type Place struct {
	Names  []string // absolute paths of the codebase on the host
	Inside string   // its absolute path in the sandbox
	Dir    string   // absolute path of a directory in the sandbox, which has Config.Files
	Agent  bool     // the sandbox has the user's ssh agent
}

// A Config is what holds in a sandbox too.
type Config struct {
	Settings []gitconfig.Setting // in the order of precedence, the highest last
	Files    map[string]string   // by name: files that are included on a condition, and files that settings name
}

// Read reads the configurations that git reads for this user beside a repository's own, with their
// includes, and returns the settings that only change what git does inside, for a place. git is
// not run. getenv is [os.Getenv]. A file that is included on a condition becomes a file of its
// own: git inside decides.
//
// The error names files that cannot be used. Read returns the rest in spite of it.
func Read(getenv func(string) string, place *Place) (*Config, error) {
	r := &reader{home: getenv("HOME"), place: place, filters: filters{}, files: map[string]string{}}
	xdg := cmp.Or(getenv("XDG_CONFIG_HOME"), r.expand("~/.config", ""))
	var all []gitconfig.Setting
	for _, name := range []string{"attributes", "excludes"} {
		file := filepath.Join(xdg, "git", strings.Replace(name, "excludes", "ignore", 1))
		if path := r.copied(file); path != "" {
			all = append(all, gitconfig.Setting{Name: "core." + name + "file", Value: path})
		}
	}
	if none := getenv("GIT_CONFIG_NOSYSTEM"); none == "" || off(none) {
		all = append(all, r.file(cmp.Or(getenv("GIT_CONFIG_SYSTEM"), "/etc/gitconfig"), 0)...)
	}
	if global := getenv("GIT_CONFIG_GLOBAL"); global != "" {
		all = append(all, r.file(global, 0)...)
	} else {
		all = append(all, r.file(filepath.Join(xdg, "git/config"), 0)...)
		all = append(all, r.file(r.expand("~/.gitconfig", ""), 0)...)
	}
	return &Config{Settings: slices.Concat(r.signing(), r.filters.required(), all), Files: r.files}, errors.Join(r.failed...)
}

// off reports whether git takes a value for false, but for an empty one.
func off(value string) bool {
	return slices.Contains([]string{"0", "false", "no", "off"}, strings.ToLower(value))
}

// A reader collects settings.
type reader struct {
	home    string
	place   *Place
	opened  int               // files that were read
	size    int               // of their text
	files   map[string]string // Config.Files
	filters filters
	signs   bool // the user signs
	failed  []error
}

// file returns the settings of a file that hold inside.
func (r *reader) file(name string, depth int) (all []gitconfig.Setting) {
	if depth > maxDepth {
		r.fail(name, fmt.Errorf("it is included through more than %d files", maxDepth))
		return nil
	}
	settings, err := gitconfig.Parse(r.read(name))
	if err != nil {
		r.fail(name, err)
		return nil
	}
	for i := range settings {
		s := &settings[i]
		switch {
		case s.Name == "include.path":
			all = append(all, r.file(r.expand(s.Value, name), depth+1)...)
		case s.Section() == "includeif" && s.Key() == "path":
			all = append(all, r.conditional(s, name, depth)...)
		case contents[s.Name]:
			all = append(all, gitconfig.Setting{Name: s.Name, Value: r.content(s.Value, name)})
		case passed(s, r.place.Agent):
			r.signs = r.signs || signs[s.Name] && !off(s.Value)
			all = append(all, r.noted(s, name)...)
		}
	}
	return all
}

// conditional returns includes of what a setting in a file includes on a condition.
func (r *reader) conditional(s *gitconfig.Setting, file string, depth int) (all []gitconfig.Setting) {
	condition, _ := s.Sub()
	if unprintable(condition) || !utf8.ValidString(condition) {
		return nil
	}
	included := r.file(r.expand(s.Value, file), depth+1)
	if len(included) == 0 {
		return nil
	}
	path := r.add(gitconfig.Format(included))
	for _, c := range r.conditions(condition, file) {
		all = append(all, gitconfig.Setting{Name: "includeif." + c + ".path", Value: path})
	}
	return all
}

// noted returns a setting as it is passed in, and records commands of filters.
func (r *reader) noted(s *gitconfig.Setting, file string) []gitconfig.Setting {
	switch passed := *s; {
	case s.Section() == "filter":
		r.filters.add(s)
	case s.Name == "user.signingkey" && !r.place.Agent:
		return nil
	case s.Name == "user.signingkey":
		passed.Value = r.key(s.Value, file)
		return []gitconfig.Setting{passed}
	}
	return []gitconfig.Setting{*s}
}

// content returns the path inside of a copy of the file that a setting in a file names. A
// relative path, which git takes from where it runs, stays.
func (r *reader) content(path, file string) string {
	if path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
		return path
	}
	return cmp.Or(r.copied(r.expand(path, file)), os.DevNull)
}

// copied returns the path inside of a copy of a file; "" if it is empty or cannot be used.
func (r *reader) copied(name string) string {
	text := r.read(name)
	if !utf8.ValidString(text) {
		r.fail(name, errors.New("it is not a text in UTF-8"))
		return ""
	}
	if text == "" {
		return ""
	}
	return r.add(text)
}

// add adds a file and returns its path inside.
func (r *reader) add(text string) string {
	name := ""
	for other, t := range r.files {
		if t == text {
			name = other
		}
	}
	if name == "" {
		name = strconv.Itoa(len(r.files) + 1)
		r.files[name] = text
	}
	return r.place.Dir + "/" + name
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

// read returns the content of a regular file. It returns "" if the user cannot read such a file.
func (r *reader) read(name string) string {
	if name == "" {
		return ""
	}
	if r.opened++; r.opened > maxFiles {
		r.fail(name, fmt.Errorf("more than %d files are read", maxFiles))
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
	b, err := io.ReadAll(io.LimitReader(f, maxText-int64(r.size)+1))
	switch r.size += len(b); {
	case err != nil:
		r.fail(name, err)
	case r.size > maxText:
		r.size -= len(b)
		r.fail(name, fmt.Errorf("the files are longer than %d bytes together", maxText))
	case strings.ContainsRune(string(b), 0):
		r.fail(name, errors.New("it is not a text"))
	default:
		return string(b)
	}
	return ""
}
