package gitscan

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/internal/git/gitconfig"
)

// A config reads the configuration files of one repository, or the user's own.
type config struct {
	*reader
	dir  string   // the git directory; "" for the user's own, which belongs to all
	tops []string // of the working tree: what relative paths may be relative to
	seen set      // files read

	moreTops bool // than are in tops
}

// read reads the configuration in file, an absolute path, and the files that it
// includes, whatever the conditions of the includes.
func (c *config) read(file string, depth int) {
	if c.seen[file] || depth > maxDepth {
		return
	}
	c.seen.add(file)
	if c.bytes > maxRead || len(c.seen) > maxPaths {
		c.truncated = true
		return
	}
	text, err := readRegular(file)
	if err != nil {
		return
	}
	c.bytes += len(text)
	settings, _ := gitconfig.Parse(string(text)) // without malformed lines, for which git refuses the file
	for _, s := range settings {
		if c.dir != "" && s.Section() == "core" && s.Key() == "worktree" && s.Value != "" {
			c.top(absolute(c.dir, s.Value))
		}
	}
	real, _, found := resolve(file)
	rel, below := relative(c.root, real)
	for _, s := range settings {
		if found && below && s.Credential() && len(c.credentials) < maxPaths {
			c.credentials = append(c.credentials, Credential{File: rel, Key: nameOf(&s)})
		}
		c.follow(&s, file, depth)
	}
}

// nameOf returns the name of the setting, without the credentials of an address in it.
func nameOf(s *gitconfig.Setting) string {
	sub, _ := s.Sub()
	if u, err := url.Parse(sub); err == nil && u.User != nil {
		u.User = nil
		return s.Section() + "." + u.String() + "." + s.Key()
	}
	return s.Name
}

// top adds a directory that paths may be relative to.
func (c *config) top(dir string) {
	if !slices.Contains(c.tops, dir) && len(c.tops) < 10 {
		c.tops = append(c.tops, dir)
	}
}

// follow records what a setting makes git execute or include.
func (c *config) follow(s *gitconfig.Setting, file string, depth int) {
	if strings.IndexByte(s.Value, 0) >= 0 || s.Value == "" {
		return
	}
	switch name := s.Section() + "." + s.Key(); {
	case name == "include.path", name == "includeif.path":
		path, ok := c.expand(file[:strings.LastIndexByte(file, '/')], s.Value)
		if !ok {
			return
		}
		c.runs(path)
		c.read(path, depth+1)
	case name == "core.hookspath":
		c.everywhere(strings.TrimSuffix(s.Value, "/_")) // as below
		for _, dir := range c.expandAll(s.Value) {
			if strings.HasSuffix(filepath.Clean(dir), "/.husky/_") {
				dir = filepath.Dir(filepath.Clean(dir)) // hooks in _ only call the scripts beside it
			}
			c.runs(dir)
			c.hooks(dir)
		}
	case name == "init.templatedir", name == "instaweb.modulepath": // with hooks for new repositories; with modules of a server
		c.everywhere(s.Value)
		for _, dir := range c.expandAll(s.Value) {
			c.runs(dir)
		}
	case executed(name):
		c.words(s.Value)
	default:
		c.words(commandIn(s))
	}
}

// expand returns the absolute path for a path in a configuration, which is relative to
// dir. ok is false for paths in the homes of other users and in git's installation.
func (c *config) expand(dir, path string) (abs string, ok bool) {
	path = strings.TrimPrefix(path, ":(optional)")
	if path == "~" || strings.HasPrefix(path, "~/") {
		return c.home + path[1:], c.home != ""
	}
	if path == "" || path[0] == '~' || strings.HasPrefix(path, "%(prefix)/") {
		return "", false
	}
	return absolute(dir, path), true
}

// expandAll returns the absolute paths for a path that is relative to one of c.tops.
func (c *config) expandAll(path string) (all []string) {
	for _, top := range c.tops {
		abs, ok := c.expand(top, path)
		if ok {
			all = append(all, abs)
		}
		if ok && !strings.HasPrefix(abs, top+"/") {
			return all // it is the same for all
		}
	}
	c.truncated = c.truncated || c.moreTops
	return all
}

// everywhere records a path in the user's own configuration that is relative to the working tree
// that git runs in: it leads somewhere in each, and with .. at its beginning into directories
// above.
func (c *config) everywhere(path string) {
	path = strings.TrimPrefix(path, ":(optional)")
	if _, ok := c.expand("", path); !ok || c.dir != "" || path[0] == '/' || path[0] == '~' {
		return
	}
	if path = filepath.Clean("/" + path); path != "/" {
		c.put(&c.later, path[1:])
	}
}

// executed reports whether the value of a setting, named without subsection, is a
// command or a program that git runs. The list has all such settings of
// Documentation/config, git-send-email(1) and git-svn(1) in git 2.55, and of Git LFS;
// settings that only choose a program by a name, such as merge.tool, are not in it.
func executed(name string) bool {
	switch name {
	case "core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass",
		"core.gitproxy", "core.alternaterefscommand", "sequence.editor",
		"diff.external", "diff.command", "diff.textconv", "merge.driver",
		"filter.clean", "filter.smudge", "filter.process",
		"gpg.program", "gpg.defaultkeycommand", "credential.helper", "interactive.difffilter",
		"difftool.cmd", "difftool.path", "mergetool.cmd", "mergetool.path",
		"browser.cmd", "browser.path", "man.cmd", "man.path", "guitool.cmd",
		"instaweb.httpd", "instaweb.browser", "help.browser", "web.browser",
		"trailer.cmd", "trailer.command", "submodule.update", "hook.command",
		"gc.recentobjectshook", "tar.command", "imap.tunnel", "svn.authorsprog",
		"sendemail.smtpserver", "sendemail.sendmailcmd", "sendemail.tocmd", "sendemail.cccmd", "sendemail.headercmd",
		"uploadpack.packobjectshook", "remote.uploadpack", "remote.receivepack",
		"lfs.path", "lfs.args", "lfs.clean", "lfs.smudge":
		return true
	}
	return strings.HasPrefix(name, "pager.")
}

// commandIn returns the command that git runs for a setting that has a command among
// other values, or "".
func commandIn(s *gitconfig.Setting) string {
	switch s.Section() {
	case "alias": // of the shell, or options of git, such as -c, before its command
		if s.Value[0] == '!' || s.Value[0] == '-' {
			return s.Value
		}
	case "remote":
		if command, ok := strings.CutPrefix(s.Value, "ext::"); ok && (s.Key() == "url" || s.Key() == "pushurl") {
			return command // git-remote-ext(1)
		}
	case "url":
		sub, _ := s.Sub()
		if command, ok := strings.CutPrefix(sub, "ext::"); ok {
			return command
		}
	}
	return ""
}

// words records the paths in a command line: words with a slash, and those that name a
// file. It does not evaluate the command, so it does not find a path that a shell
// composes.
func (c *config) words(command string) {
	words := strings.FieldsFunc(command, func(r rune) bool {
		return strings.ContainsRune(" \t\n'\"!;&|()<>=", r)
	})
	if len(words) > 0 && strings.Contains(words[0], "/") {
		c.everywhere(words[0])
	}
	for _, word := range words[:min(len(words), 100)] {
		for _, path := range c.expandAll(word) {
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() || err != nil && strings.Contains(word, "/") {
				c.runs(path)
			}
		}
	}
}
