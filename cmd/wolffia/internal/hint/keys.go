package hint

import (
	"path"
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/runtime"
)

// editors are the programs that wait for keys where they have no terminal to read them from:
// others fail at once, or take the end of their input for an answer.
var editors = []string{"vi", "vim", "view", "vimdiff", "rvim", "nvim"}

// batch are the options with which an editor needs no keys; those of one letter may be
// among others, as in -es.
var (
	batch        = []string{"--headless", "--version", "--help", "--embed", "-h"}
	batchLetters = "esESc"
)

// waitsForKeys reports whether a command without a terminal is known to wait for keys that
// cannot come.
func waitsForKeys(command []string) bool {
	if len(command) == 0 || !slices.Contains(editors, path.Base(command[0])) {
		return false
	}
	return !slices.ContainsFunc(command[1:], func(arg string) bool {
		letters, short := strings.CutPrefix(arg, "-")
		return slices.Contains(batch, arg) || strings.HasPrefix(arg, "+") ||
			short && !strings.HasPrefix(letters, "-") && strings.ContainsAny(letters, batchLetters)
	})
}

// WarnKeys warns of a command without a terminal that waits for keys; remedy is how it gets
// a terminal. In a session the guest sees that by itself, whatever the program.
func WarnKeys(con *console.Console, spec *runtime.Command, remedy string) {
	if !spec.TTY && spec.Session == "" && waitsForKeys(spec.Command) {
		con.Warn("%s has no terminal, and waits for keys until it is ended: %s, or use --timeout", console.Printable(path.Base(spec.Command[0])), remedy)
	}
}
