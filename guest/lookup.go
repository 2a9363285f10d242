package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// lookPath finds the program that a shell would run for name with this environment, as execvp(3)
// does. It looks a name without a slash up in PATH. It remembers a file that exists but may not be
// executed, and an entry that cannot be read, for example for want of descriptors.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if name == "" {
		return "", syscall.ENOENT
	}
	found := error(syscall.ENOENT)
	for _, at := range filepath.SplitList(variable(env, "PATH")) {
		path := filepath.Join(at, name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, at, name) // an empty or relative entry means the working directory
		}
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		switch {
		case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR, err == unix.ENOENT, err == unix.ENOTDIR, err == unix.EACCES:
			continue
		case err == nil:
			err = unix.Access(path, unix.X_OK)
		}
		if err == nil {
			return path, nil
		}
		found = err
	}
	return "", found
}

// LookPath returns the program that execvp(3) would run for name in this process.
func LookPath(name string) (string, error) { return lookPath(name, "", os.Environ()) }

// variable returns the value of key in env; the last one counts.
func variable(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

// failure tells the host why name did not start, with the exit code that a
// shell would give.
func failure(name string, err error) wire.Failure {
	code := 126
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return wire.Failure{Code: 127, Message: fmt.Sprintf("%q: not found", name)}
	case errors.Is(err, errCanceled):
		return wire.Failure{Code: 125, Message: err.Error(), Class: wire.ClassConflict}
	case errors.As(err, new(dirError)), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE),
		errors.Is(err, syscall.E2BIG):
		code = 125
	}
	return wire.Failure{Code: code, Message: fmt.Sprintf("%q: %v", name, err)}
}
