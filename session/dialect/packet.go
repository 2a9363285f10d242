// Package dialect has the texts that a session exchanges with a shell. It starts nothing and opens
// no file.
package dialect

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxPacket bounds a line to a shell, in bytes. bash reads into 1024 bytes,
// older ones into 128, and loses the rest of a longer packet.
const MaxPacket = 127

// Files in a session's directory.
const (
	TextName   = "c" // a command's text; always the same, since a shell names it in its messages
	StatusName = "s" // has a command see the status of the one before
	NameSize   = 13  // how long other names are, in bytes
)

// A Dialect is what differs between shells.
type Dialect struct {
	// POSIX is a shell without the extensions of bash: dash, busybox ash. It
	// reads its lines from a FIFO that it takes for a script, since ash's
	// reader of standard input takes an interrupted read for the end.
	POSIX bool
}

// builtin is what stands before the name of a builtin command, which it then is.
func (d Dialect) builtin() string {
	if d.POSIX {
		return `\`
	}
	return `\builtin `
}

// Streams are the kinds of a command's standard streams.
type Streams struct {
	Stdin bool // a FIFO, else /dev/null
	Merge bool // standard error goes where standard output does
	TTY   bool // all three are the session's terminal
}

// FIFOs are the names of a command's streams in the session's directory, as far
// as it has them; empty: it has none.
type FIFOs struct{ In, Out, Err string }

// Run is packet A of package session. status names the file that makes the status of the previous
// command visible to the command, or is empty. The empty line makes the shell print its messages
// about jobs before the command's streams are in place. The backslash defeats aliases, ">|"
// noclobber.
func (d Dialect) Run(dir string, st Streams, names FIFOs, status string) string {
	var b strings.Builder
	b.Grow(MaxPacket)
	file := func(before, name string) {
		for _, s := range [...]string{before, dir, "/", name} {
			b.WriteString(s)
		}
	}
	b.WriteByte('\n')
	if status != "" && !d.POSIX { // under set -e the others would end
		file(`\. `, status)
		b.WriteString(" || ")
	}
	file(`\. `, TextName)
	switch {
	case st.TTY:
		b.WriteString(" </dev/tty >|/dev/tty 2>&1\n")
		return b.String()
	case st.Stdin:
		file(" <", names.In)
	default:
		b.WriteString(" </dev/null")
	}
	file(" >|", names.Out)
	if st.Merge {
		b.WriteString(" 2>&1\n")
	} else {
		file(" 2>|", names.Err)
		b.WriteByte('\n')
	}
	return b.String()
}

// Report is packet B of package session. Three digits for NUL: a digit may follow. Once the report
// is out, what would run between commands, or log an idle shell out, is disarmed.
func (d Dialect) Report(nonce string) string {
	return d.builtin() + `printf '\000%s %s %s\000' ` + nonce + ` "$?" "${PWD-}" >&0; PS1= PS2= PS0= PROMPT_COMMAND= TMOUT=` + "\n"
}

// GuardSignal is a real-time signal that a shell has a trap for, whose number no
// library uses (signal(7)). A trap is run when the program that the shell waits
// for has ended. This one leaves the text that the shell has come to.
const GuardSignal = unix.Signal(50)

// GuardScript is the script that this trap sources. It leaves the text by an interrupt. A trap
// that the user has on SIGINT would take the first one, and the text would continue: so the script
// appends that trap to the file aside, from which the session restores it later. At the prompt the
// script does nothing: there nothing is sourced, and descriptor 0 is a socket.
func (d Dialect) GuardScript(aside string) string {
	test, save, b := `[[ ! ${BASH_SOURCE[1]-} ]]`, `trap -p INT`, d.builtin()
	if d.POSIX {
		test, save = `[ -S /proc/self/fd/0 ]`, `trap`
	}
	interrupt := b + `kill -INT $$`
	return test + ` || { ` + b + save + ` >>` + aside + `; ` + interrupt + `; ` + b + `trap - INT; ` + interrupt + "; }\n"
}

// Background is a text that runs another in the background and keeps its status, also under set
// -e, which the text has and what keeps the status has not. The outer group's streams are open
// before the job is forked, and so before the report. Bash disowns the job: else its messages
// about the job, with this text, would come during another command, wait would wait for it, and
// jobs would show it. It may have ended, and is not found then.
func (d Dialect) Background(path string) []byte {
	b, disown := d.builtin(), `\builtin disown "$!" 2>/dev/null || \builtin :; `
	if d.POSIX {
		disown = ""
	}
	run := "case $- in *e*) " + b + "set +e; ( " + b + "set -e; \\. " + path + " ) ;; *) ( \\. " + path + " ) ;; esac; "
	return []byte("{ { " + run + b + "printf %s \"$?\" >|" + path + "s; } & " + disown + "} </dev/null >|" + path + "o 2>|" + path + "e\n")
}

// Prompt returns the line that sets the prompt of a person's shell: the sandbox's name and
// the working directory. It is not exported, and the user's own start files come later.
func (d Dialect) Prompt(host string) string {
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		host = "" // a shell would expand it
	}
	dir := `\w`
	if d.POSIX {
		dir = `$PWD`
	}
	return "PS1='[wolffia:" + host + "] " + dir + "\\$ '\n"
}

// Start are a new shell's first lines; exit and guard are the scripts that its traps
// source.
func (d Dialect) Start(exit, guard string) []string {
	traps := []string{`trap '\. ` + exit + "' EXIT\n", `trap '\. ` + guard + "' " + strconv.Itoa(int(GuardSignal)) + "\n"}
	if d.POSIX {
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

// Repair undoes what a user can have done to the commands of the other
// packets. To assign POSIXLY_CORRECT makes bash look for the special builtins
// unset and trap before functions of these names.
func (d Dialect) Repair() []string {
	if d.POSIX {
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

// Args are the arguments of the shell that script is fed to; script is for
// dialects that need one.
func (d Dialect) Args(path, script string) []string {
	if d.POSIX {
		return []string{path, "-i", script}
	}
	return []string{path, "--norc", "--noprofile", "--noediting", "-i"}
}

// Longest is the longest packet of a session with this directory, in bytes.
func (d Dialect) Longest(dir, nonce string) int {
	name := strings.Repeat("n", NameSize)
	path := dir + "/" + name
	n := max(len(d.Run(dir, Streams{Stdin: true}, FIFOs{name, name, name}, StatusName)), len(d.Report(nonce)))
	for _, p := range append(d.Start(path, path), d.Repair()...) {
		n = max(n, len(p))
	}
	return n
}

// quote makes one shell word of s, in every shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
