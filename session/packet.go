package session

import (
	"strings"

	"golang.org/x/sys/unix"
)

// maxPacket bounds a line to a shell, in bytes. bash reads into 1024 bytes,
// older ones into 128, and loses the rest of a longer packet.
const maxPacket = 127

// A dialect is what differs between shells.
type dialect struct {
	// posix is a shell without the extensions of bash: dash, busybox ash. It
	// reads its lines from a FIFO that it takes for a script, since ash's
	// reader of standard input takes an interrupted read for the end.
	posix bool
}

// streams says what a command's standard streams are.
type streams struct {
	stdin bool // a FIFO, else /dev/null
	merge bool // standard error goes where standard output does
	tty   bool // all three are the session's terminal
}

// fifos are the names of a command's streams in the session's directory, as far
// as it has them.
type fifos struct{ in, out, err string }

// run is packet A. status names the file that has the command see the status of
// the one before, or is empty. The empty line has the shell print what it has to
// say about jobs before the command's streams are in place. The backslash defeats
// aliases, ">|" noclobber.
func (d dialect) run(dir string, st streams, names fifos, status string) string {
	var b strings.Builder
	b.Grow(maxPacket)
	file := func(before, name string) {
		for _, s := range [...]string{before, dir, "/", name} {
			b.WriteString(s)
		}
	}
	b.WriteByte('\n')
	if status != "" && !d.posix { // under set -e the others would end
		file(`\. `, status)
		b.WriteString(" || ")
	}
	file(`\. `, textName)
	switch {
	case st.tty:
		b.WriteString(" </dev/tty >|/dev/tty 2>&1\n")
		return b.String()
	case st.stdin:
		file(" <", names.in)
	default:
		b.WriteString(" </dev/null")
	}
	file(" >|", names.out)
	if st.merge {
		b.WriteString(" 2>&1\n")
	} else {
		file(" 2>|", names.err)
		b.WriteByte('\n')
	}
	return b.String()
}

// report is packet B. Three digits for NUL: a digit may follow. Once the report is out, what
// would run between commands, or log an idle shell out, is disarmed.
func (d dialect) report(nonce string) string {
	printf := `\builtin printf`
	if d.posix {
		printf = `\printf`
	}
	return printf + ` '\000%s %s %s\000' ` + nonce + ` "$?" "${PWD-}" >&0; PS1= PS2= PS0= PROMPT_COMMAND= TMOUT=` + "\n"
}

// guardSignal is a real-time signal that a shell has a trap for, whose number no
// library uses (signal(7)). A trap is run when the program that the shell waits
// for has ended. This one leaves the text that the shell has come to.
const guardSignal = unix.Signal(50)

// guardScript is what that trap sources. It leaves the text by an interrupt. A trap
// that the user has on SIGINT takes the first one, and would go on: it is appended to
// the file aside, and put back later. At the prompt the script does nothing: there
// nothing is sourced, and descriptor 0 is a socket.
func (d dialect) guardScript(aside string) string {
	test, save, b := `[[ ! ${BASH_SOURCE[1]-} ]]`, `trap -p INT`, `\builtin `
	if d.posix {
		test, save, b = `[ -S /proc/self/fd/0 ]`, `trap`, `\`
	}
	interrupt := b + `kill -INT $$`
	return test + ` || { ` + b + save + ` >>` + aside + `; ` + interrupt + `; ` + b + `trap - INT; ` + interrupt + "; }\n"
}

// prompt returns the line that sets the prompt of a person's shell: the sandbox's name and
// the working directory. It is not exported, and the user's own start files come later.
func (d dialect) prompt(host string) string {
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		host = "" // a shell would expand it
	}
	dir := `\w`
	if d.posix {
		dir = `$PWD`
	}
	return "PS1='[wolffia:" + host + "] " + dir + "\\$ '\n"
}

// start are a new shell's first lines; exit and guard are the scripts that its traps
// source.
func (d dialect) start(exit, guard string) []string {
	traps := []string{`trap '\. ` + exit + "' EXIT\n", `trap '\. ` + guard + "' " + itoa(int(guardSignal)) + "\n"}
	if d.posix {
		return append([]string{"PS1= PS2=\n"}, traps...)
	}
	return append([]string{
		"PS1= PS2= PS4='+ '\n",
		"set +o history +H; history -c; unset HISTFILE MAILCHECK; export -n PS1 PS2 ENV\n",
		"shopt -s execfail\n",
	}, traps...)
}

// isOwnTrap reports whether a line of "trap" is one of those. base is the directory of
// all sessions' directories.
func isOwnTrap(line, base string) bool { return strings.Contains(line, `'\. `+base+"/") }

// repair undoes what a user can have done to the commands of the other
// packets. To assign POSIXLY_CORRECT makes bash look for the special builtins
// unset and trap before functions of these names.
func (d dialect) repair() []string {
	if d.posix {
		return []string{`\unset -f unset printf command . trap` + "\n", `\unalias -a` + "\n"}
	}
	return []string{
		"POSIXLY_CORRECT=y\n",
		`\unset -f unset builtin enable printf . command trap` + "\n",
		`\trap - DEBUG` + "\n",
		`\unset POSIXLY_CORRECT` + "\n",
		`\enable builtin printf . command trap` + "\n",
	}
}

// args are the arguments of the shell that script is fed to; script is for
// dialects that need one.
func (d dialect) args(path, script string) []string {
	if d.posix {
		return []string{path, "-i", script}
	}
	return []string{path, "--norc", "--noprofile", "--noediting", "-i"}
}

// longest is the longest packet of a session with this directory, in bytes.
func (d dialect) longest(dir, nonce string) int {
	name := strings.Repeat("n", tokenSize)
	path := dir + "/" + name
	n := max(len(d.run(dir, streams{stdin: true}, fifos{name, name, name}, statusName)), len(d.report(nonce)))
	for _, p := range append(d.start(path, path), d.repair()...) {
		n = max(n, len(p))
	}
	return n
}

// quote makes one shell word of s, in every shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
