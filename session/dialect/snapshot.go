package dialect

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// MaxSnapshot bounds the kept state of a shell, in bytes. A larger state gives no snapshot.
const MaxSnapshot = 16 << 20

// A Snapshot is a shell's state as the shell itself has written it: sections,
// each after its name between two NULs, which no value in a shell can hold.
type Snapshot struct {
	POSIX    bool
	sections map[string][]byte
}

// SnapshotScript has the shell print its state. What a trap on DEBUG prints between two commands
// is in no section that is one value.
func (d Dialect) SnapshotScript() string {
	if d.POSIX {
		return `\printf '\000vars\000'; set
\printf '\000exports\000'; export -p
\printf '\000alias\000'; alias
\printf '\000trap\000'; trap
\printf '\000umask\000'; umask
\printf '\000cwd\000%s\000end\000' "${PWD-}"
`
	}
	return `\builtin printf '\000shopt\000'; \builtin shopt -p
\builtin printf '\000vars\000'; \builtin declare -p
\builtin printf '\000functions\000'; \builtin declare -f
\builtin printf '\000attributes\000'; \builtin declare -F
\builtin printf '\000alias\000'; \builtin alias -p
\builtin printf '\000trap\000'; \builtin trap -p
\builtin printf '\000umask\000'; \builtin umask
\builtin printf '\000dirs\000'; \builtin dirs -l -p
\builtin printf '\000soft\000'; \builtin ulimit -Sa
\builtin printf '\000hard\000'; \builtin ulimit -Ha
\builtin printf '\000cwd\000%s\000args\000' "${PWD-}"; \builtin test "$#" -eq 0 || \builtin printf ' %q' "$@"
\builtin printf '\000options\000'; \builtin set +o
\builtin printf '\000end\000'
`
}

// ExitScript is what a shell sources when it exits. The FIFO is read by the guest;
// unlike a file it is subject to no limit on a file's size.
func (d Dialect) ExitScript(fifo string) string {
	return "{\n" + d.SnapshotScript() + "} >|" + fifo + " 2>/dev/null\n"
}

// ParseSnapshot reads what a snapshot script has printed; false if it is not
// complete.
func ParseSnapshot(d Dialect, b []byte) (Snapshot, bool) {
	s := Snapshot{POSIX: d.POSIX, sections: map[string][]byte{}}
	parts := bytes.Split(b, []byte{0})
	// "", name, content, name, content, ..., "end", ""
	if len(parts) < 3 || len(parts)%2 == 0 || string(parts[len(parts)-2]) != "end" {
		return Snapshot{}, false
	}
	for i := 1; i < len(parts); i += 2 {
		s.sections[string(parts[i])] = parts[i+1]
	}
	return s, true
}

// Cwd returns the working directory as the shell had it.
func (s Snapshot) Cwd() string { return string(s.sections["cwd"]) }

func (s Snapshot) umask() string { return strings.TrimSpace(string(s.sections["umask"])) }

// statements returns those of a section.
func (s Snapshot) statements(section string) []string { return statements(s.sections[section]) }

// traps returns the statements that set the traps that are not the session's own (see isOwnTrap).
func (s Snapshot) traps(base string) []string {
	return slices.DeleteFunc(s.statements("trap"), func(stmt string) bool { return isOwnTrap(stmt, base) })
}

// lastWord returns what comes after the last space of a statement, such as an option's name.
func lastWord(stmt string) string { return stmt[strings.LastIndexByte(stmt, ' ')+1:] }

// A Purpose is what a snapshot is restored for.
type Purpose int

const (
	AfterExit  Purpose = iota // the shell has ended on its own
	AfterKill                 // it was killed since it did not answer
	ForAttach                 // a second shell, for a person
	AfterError                // the shell has ended on its own, with a status that is not 0
)

// computed are the variables that a shell computes or refuses to change, and
// those that concern the prompt.
var computed = []string{
	"BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND", "BASH_EXECUTION_STRING",
	"BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "BASH_VERSION", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME",
	"GROUPS", "HISTCMD", "HISTFILE", "LINENO", "OPTIND", "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4",
	"PWD", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "TMOUT", "UID", "_",
}

// notSet are options that are not restored: they are the shell's own affair,
// or would end it again.
var notSet = map[Purpose][]string{
	AfterExit:  {"noexec", "onecmd", "restricted", "monitor", "history", "histexpand", "emacs", "vi", "interactive-comments"},
	AfterError: {"errexit"},
	AfterKill:  {"errexit"},
	ForAttach:  {"errexit", "xtrace", "verbose", "nounset"},
}

// Restore makes a script that restores the state in a new shell. The order matters only for
// settings that affect parsing: bash's options come first, aliases and options of set last.
//
// base is the directory of all sessions' directories.
func (s Snapshot) Restore(base string, purpose Purpose) []byte {
	b := &script{}
	if s.POSIX {
		s.restorePOSIX(b, base, purpose)
	} else {
		s.restoreBash(b, base, purpose)
	}
	return b.Bytes()
}

// A script is the text of a snapshot's restoration.
type script struct{ bytes.Buffer }

// line adds the words of a line.
func (b *script) line(words ...string) { b.WriteString(strings.Join(words, " ") + "\n") }

func (s Snapshot) restorePOSIX(b *script, base string, purpose Purpose) {
	for _, stmt := range s.statements("vars") {
		if name, _, ok := strings.Cut(stmt, "="); ok && !slices.Contains(computed, name) {
			b.line(stmt)
		}
	}
	for _, stmt := range s.statements("exports") {
		name, _, _ := strings.Cut(strings.TrimPrefix(stmt, "export "), "=")
		if !slices.Contains(computed, name) {
			b.line("export", name)
		}
	}
	b.line(`\cd -- ` + quote(s.Cwd()))
	b.line("umask", quote(s.umask()))
	if purpose != AfterKill {
		for _, stmt := range s.traps(base) {
			b.line(stmt)
		}
	}
	for _, stmt := range s.statements("alias") {
		b.line(`\alias ` + strings.TrimPrefix(stmt, "alias "))
	}
}

func (s Snapshot) restoreBash(b *script, base string, purpose Purpose) {
	builtin := func(words ...string) { b.line(`\builtin ` + strings.Join(words, " ")) }
	for _, stmt := range s.statements("shopt") {
		switch lastWord(stmt) {
		case "login_shell", "restricted_shell", "extdebug":
		default:
			builtin(stmt)
		}
	}
	builtin("cd --", quote(s.Cwd()))
	for _, stmt := range s.statements("vars") {
		if name, ok := declared(stmt); ok && !slices.Contains(computed, name) {
			b.line(stmt) // bare: else bash does not parse the values of arrays
		}
	}
	builtin("umask", quote(s.umask()))
	builtin("set --" + string(s.sections["args"]))
	b.Write(s.sections["functions"])
	for _, stmt := range s.statements("attributes") {
		if !strings.HasPrefix(stmt, "declare -f ") {
			builtin(stmt)
		}
	}
	if purpose != AfterKill && purpose != ForAttach {
		for _, stmt := range s.traps(base) {
			builtin(stmt)
		}
	}
	for _, stmt := range s.statements("alias") {
		builtin(stmt)
	}
	for _, stmt := range s.statements("options") {
		if name := lastWord(stmt); !slices.Contains(notSet[AfterExit], name) && !slices.Contains(notSet[purpose], name) {
			builtin(stmt)
		}
	}
	dirs := strings.Split(string(s.sections["dirs"]), "\n")
	for _, dir := range slices.Backward(dirs[1:]) { // the first one is the working directory
		if strings.HasPrefix(dir, "/") {
			builtin("pushd -n --", quote(dir), `|| \builtin :`)
		}
	}
	for _, hardness := range []string{"soft", "hard"} { // a limit cannot be above its hard one
		for stmt := range strings.Lines(string(s.sections[hardness])) {
			if flag, value, ok := limit(stmt); ok {
				builtin("ulimit", "-"+strings.ToUpper(hardness[:1]), flag, value, `|| \builtin :`)
			}
		}
	}
}

// limit returns the flag and the value in a line of ulimit -a, such as "open files   (-n) 1024";
// false for a limit that cannot be set, or is a session's own (see proc.Mark), and for that of
// processes: with too low a one no shell can start a command, and the end of the shell is what
// helps.
func limit(line string) (flag, value string, ok bool) {
	what, value, ok := strings.Cut(strings.TrimSpace(line), ") ")
	flag = what[max(0, len(what)-2):]
	value = strings.TrimSpace(value)
	if _, err := strconv.ParseUint(value, 10, 64); !ok || err != nil && value != "unlimited" {
		return "", "", false
	}
	return flag, value, len(flag) == 2 && flag[0] == '-' && !slices.Contains([]string{"-p", "-R", "-u"}, flag)
}

// declared returns the name in a line of declare -p.
func declared(stmt string) (string, bool) {
	rest, ok := strings.CutPrefix(stmt, "declare -")
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, " ")
	name, _, _ := strings.Cut(rest, "=")
	return name, ok && name != ""
}

// statements splits a shell's listing of its state into statements, at newlines outside quotes and
// parentheses. It drops a statement that is not closed.
func statements(b []byte) (all []string) {
	depth, begin := 0, 0
	var closing byte // ends the quotes; 0: outside quotes
	raw := false     // a backslash in them is one
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '\\' && !raw:
			i++
		case closing != 0:
			if c == closing {
				closing, raw = 0, false
			}
		case c == '\'' || c == '"':
			closing, raw = c, c == '\'' && (i == 0 || b[i-1] != '$') // $'...' is not
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == '\n' && depth == 0:
			if i > begin {
				all = append(all, string(b[begin:i]))
			}
			begin = i + 1
		}
	}
	return all
}

// SetsTrap reports whether one of the traps is one that bash runs amid a command.
func (s Snapshot) SetsTrap() bool { return SetsTrap(s.sections["trap"]) }

// SetsTrap reports whether a text may set a trap that bash runs amid a command, or a
// list of traps has one.
func SetsTrap(text []byte) bool {
	for line := range bytes.Lines(text) {
		_, rest, found := bytes.Cut(line, []byte("trap"))
		for _, name := range []string{"ERR", "RETURN", "DEBUG"} {
			if found && bytes.Contains(rest, []byte(name)) {
				return true
			}
		}
	}
	return false
}
