// Package hostdir decides which directories of the host a sandbox is shown by default.
package hostdir

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"wolffia/internal/pathname"
	"wolffia/runtime"
)

// Inside returns dir, which begins at mountPoint if it is relative; empty stays empty.
func Inside(dir, mountPoint string) string {
	if dir == "" || path.IsAbs(dir) {
		return dir
	}
	return path.Join(mountPoint, dir)
}

// RealPath returns the absolute path of a directory or file without symbolic links.
func RealPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// Current returns the path of the current directory without symbolic links, or why the
// directory cannot be a codebase.
func Current() (string, error) {
	here, err := RealPath(".")
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("the current directory was removed")
	}
	if err == nil {
		var dir *os.File
		if dir, err = os.Open(here); err == nil {
			err = dir.Close()
		}
	}
	if err != nil {
		return "", fmt.Errorf("the current directory cannot be read: %w", err)
	}
	return here, nil
}

// Codebase is the key by which [hostpath.Distrust] knows the codebase of a command line.
const Codebase = "codebase"

// Default returns the codebase of a command that names none, where sandboxes may have written;
// nothing if there is none.
func Default() ([]string, error) {
	dir, _ := Project()
	own, err := RealPath(dir)
	if err != nil || NotByDefault(own, Homes(own)) != nil {
		return nil, nil
	}
	return []string{own}, nil
}

// systems are directories that belong to the system with all that is in them, but for what
// is in sources.
var (
	systems = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr"}
	sources = []string{"/dev/shm", "/usr/local/src", "/usr/src"}
)

// shared are directories that many programs or users share. What is in them may be a
// project.
var shared = []string{
	"/", "/dev/shm", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/run/user", "/srv", "/tmp", "/usr/local/src", "/usr/src",
	"/var", "/var/cache", "/var/lib", "/var/log", "/var/opt", "/var/spool", "/var/tmp", "/gnu", "/gnu/store", "/nix", "/nix/store",
}

// private are the names, in a home directory, of directories with credentials, or with
// programs and settings of the user's for all that the user does.
var private = []string{".aws", ".cache", ".config", ".gnupg", ".kube", ".local", ".local/bin", ".local/share", ".local/state", ".ssh", "bin"}

// NotByDefault returns why a directory is shown only to who names it; nil if the current
// directory may be it. homes are home directories.
func NotByDefault(dir string, homes []string) error {
	in := func(parent string) bool { return strings.HasPrefix(dir, parent+"/") }
	what := ""
	switch {
	case slices.Contains(shared, dir), path.Dir(dir) == "/run/user",
		slices.ContainsFunc(systems, func(s string) bool { return dir == s || in(s) }) && !slices.ContainsFunc(sources, in):
		what = "is a directory of the system"
	default:
		for _, home := range homes {
			switch {
			case dir == home:
				what = "is a home directory"
			case strings.HasPrefix(home, dir+"/"):
				what = "holds a home directory"
			case in(home) && slices.Contains(private, dir[len(home)+1:]):
				what = "holds credentials, programs or settings of a user"
			}
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("the current directory %s %s, and is not shown by default", dir, what)
}

// Names returns other names of a codebase, whose path without symbolic links is own: as its path
// was written, and as pwd, the PWD of the shell, has it. Each has a place inside, beside the mount
// point.
func Names(own, mountPoint, written, pwd string) []string {
	var names []string
	add := func(name string) {
		real, err := filepath.EvalSymlinks(name)
		if err == nil && real == own && name != own && HasPlace(name) && !pathname.Within(name, mountPoint) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if written != "" {
		// which begins with PWD if that is right
		if abs, err := filepath.Abs(written); err == nil {
			add(abs)
		}
	}
	if !path.IsAbs(pwd) {
		return names
	}
	pwd = path.Clean(pwd)
	if here, err := filepath.EvalSymlinks(pwd); err == nil && pathname.Within(here, own) {
		if name, ok := strings.CutSuffix(pwd, strings.TrimPrefix(here, own)); ok {
			add(name)
		}
	}
	return names
}

// HasPlace reports whether a sandbox on the host's system directories has a place for a
// directory of the host at the same path. Inside, /var/tmp is a symbolic link.
func HasPlace(dir string) bool {
	return runtime.CanMountAt(dir) && !strings.HasPrefix(dir, "/var/tmp/") && !strings.HasPrefix(dir, "/etc/")
}

// Homes returns the home directories of this user and of the owner of dir, without
// symbolic links.
func Homes(dir string) []string {
	list := []string{os.Getenv("HOME")}
	ids := []int{os.Getuid()}
	if st, err := os.Stat(dir); err == nil {
		if owner := int(st.Sys().(*syscall.Stat_t).Uid); owner != ids[0] {
			ids = append(ids, owner)
		}
	}
	for _, id := range ids {
		if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
			list = append(list, u.HomeDir, "/home/"+u.Username) // the second is the one inside
		}
	}
	var all []string
	for _, home := range list {
		if !path.IsAbs(home) {
			continue
		}
		if real, err := filepath.EvalSymlinks(home); err == nil {
			home = real
		}
		if home = path.Clean(home); home != "/" {
			all = append(all, home)
		}
	}
	return all
}
