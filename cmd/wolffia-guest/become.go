package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/guest"
)

// What launch.BecomeArg and launch.Sudo are: that package would make this program slow to start.
const (
	becomeArg = guest.BecomeArg
	sudoName  = "sudo"
)

// become executes a program as a user of the sandbox: wolffia exec --user. With given the user owns
// the pipes and the terminal that it has as its streams. become returns only with an error, and the
// exit code that a shell has for it.
func become(who string, args []string, given bool) (code int, err error) {
	id, err := guest.FindUser(who)
	if err != nil {
		return 1, err
	}
	path, err := guest.LookPath(args[0])
	if err != nil {
		return map[bool]int{true: 127, false: 126}[errors.Is(err, fs.ErrNotExist)], err
	}
	if given { // as a container's are: a program may open /dev/stdout
		for fd := range 3 {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				continue
			}
			_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
			if err == nil || st.Mode&unix.S_IFMT == unix.S_IFIFO {
				_ = unix.Fchown(fd, id.UID, -1)
			}
		}
	}
	// The program sets the groups first, since a process that is not root cannot change them.
	err = syscall.Setgroups(id.Groups)
	if err == nil {
		err = syscall.Setresgid(id.GID, id.GID, id.GID)
	}
	if err == nil {
		err = syscall.Setresuid(id.UID, id.UID, id.UID)
	}
	if err != nil {
		return 1, fmt.Errorf("become user %s: only root can, and no program makes its caller root here: %w", who, err)
	}
	err = syscall.Exec(path, args, id.Override(os.Environ()))
	return map[bool]int{true: 127, false: 126}[errors.Is(err, unix.ENOENT)], fmt.Errorf("%s: %w", path, err)
}

// A sudo is what a command line of sudo(8) asks for.
type sudo struct {
	who  string
	env  []string
	args []string
}

// parseSudo reads the options of sudo(8) that people and scripts use. Those that change nothing
// here are accepted.
func parseSudo(args []string) (*sudo, error) {
	s := &sudo{who: "root"}
	var login bool
	group := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		arg := args[0]
		args = args[1:]
		value := func() string {
			if _, v, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "--") {
				return v
			}
			if !strings.HasPrefix(arg, "--") && len(arg) > 2 {
				return arg[2:]
			}
			if len(args) == 0 {
				return ""
			}
			v := args[0]
			args = args[1:]
			return v
		}
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			name = ""
		case strings.HasPrefix(arg, "-u"), name == "--user":
			s.who = strings.TrimPrefix(value(), "#")
		case strings.HasPrefix(arg, "-g"), name == "--group":
			group = strings.TrimPrefix(value(), "#")
		case arg == "-i", arg == "--login", arg == "-s", arg == "--shell":
			login = true
		case arg == "-v", arg == "-k", arg == "-K", arg == "--validate":
			return s, nil
		case slices.Contains([]string{"--non-interactive", "--set-home", "--preserve-env"}, name),
			strings.Trim(arg, "-nHEPSb") == "":
		default:
			return nil, fmt.Errorf("option %s is not known: this is wolffia's own, which runs a command as another user", arg)
		}
		if name == "" {
			break
		}
	}
	for len(args) > 0 && strings.Contains(strings.TrimLeft(args[0], "="), "=") && !strings.Contains(strings.SplitN(args[0], "=", 2)[0], "/") {
		s.env, args = append(s.env, args[0]), args[1:]
	}
	if group != "" {
		s.who += ":" + group
	}
	switch s.args = args; {
	case login && len(args) > 0:
		s.args = append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, args...)
	case login:
		s.args = []string{"/bin/sh"}
	case len(args) == 0:
		return nil, errors.New("no command given")
	}
	return s, nil
}

// runSudo is the program sudo, where the sandbox's system has none.
func runSudo(args []string) (code int, err error) {
	s, err := parseSudo(args)
	if err != nil {
		return 1, err
	}
	if len(s.args) == 0 {
		return 0, nil
	}
	for _, v := range s.env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	return become(s.who, s.args, false)
}

// others are the programs that this one is by another name, or with another first argument.
func others(args []string) (code int, err error, is bool) {
	switch {
	case strings.HasSuffix(args[0], "/"+sudoName) || args[0] == sudoName:
		code, err = runSudo(args[1:])
		return code, err, true
	case len(args) > 3 && args[1] == becomeArg:
		code, err = become(args[2], args[3:], true)
		return code, err, true
	}
	return 0, nil, false
}
