package dialect

import (
	"fmt"
	"strings"
)

// unattended are the variables that tell programs without a terminal that no person types or
// reads. None outranks the user's own setting for one command: EDITOR is the last that git asks
// for, behind GIT_EDITOR, core.editor and VISUAL.
var unattended = []string{"DEBIAN_FRONTEND=noninteractive", "EDITOR=true", "GIT_TERMINAL_PROMPT=0", "PAGER=cat"}

// Unattended returns the variables that a program without a terminal gets besides env:
// those whose names env does not have.
func Unattended(env []string) []string {
	has := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		has[name] = true
	}
	var more []string
	for _, kv := range unattended {
		if name, _, _ := strings.Cut(kv, "="); !has[name] {
			more = append(more, kv)
		}
	}
	return more
}

// Attended makes scripts for a command on a terminal: do unsets those variables of more
// that still have their values, and undo prints what sets them again, unless the command
// has set them. The scripts run in a shell whose options are the user's.
func (d Dialect) Attended(more []string) (undo, do string) {
	var u, o strings.Builder
	b := d.builtin()
	for _, kv := range more {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&u, `case ${%[1]s-} in %[2]s) %[3]sprintf 'case ${%[1]s+x} in "") %[4]sexport %[1]s=%[2]s ;; esac\n' ;; esac`+"\n",
			name, value, b, strings.ReplaceAll(b, `\`, `\\`))
		fmt.Fprintf(&o, "case ${%s-} in %s) %sunset %[1]s ;; esac\n", name, value, b)
	}
	return u.String(), o.String()
}
