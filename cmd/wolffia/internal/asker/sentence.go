package asker

import (
	"fmt"
	"strings"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/runtime"
)

// Sentence returns a question as a sentence for a terminal. All that a program chose is made
// printable.
func Sentence(q *runtime.Question) string {
	var b strings.Builder
	b.WriteString(who(q))
	b.WriteString(" " + console.Printable(q.Wish()))
	if q.Rule != "" {
		fmt.Fprintf(&b, ": rule %s", console.Printable(q.Rule))
		if q.Source != "" {
			fmt.Fprintf(&b, " of %s", console.Printable(q.Source))
		}
	}
	if q.Secret {
		b.WriteString("; it may be a secret")
	}
	if q.Count > 1 {
		fmt.Fprintf(&b, "; %d accesses wait", q.Count)
	}
	if q.Recent > 1 {
		fmt.Fprintf(&b, "; %d questions in the last minute", q.Recent)
	}
	return b.String()
}

// maxCommand bounds a command line in a sentence, in bytes.
const maxCommand = 80

// who returns the program of a question.
func who(q *runtime.Question) string {
	name, command := console.Printable(q.Program), console.Printable(q.Command)
	if len(command) > maxCommand {
		command = command[:maxCommand] + "..."
	}
	switch {
	case name == "":
		return "a program"
	case command == "" || command == name:
		return name
	}
	return fmt.Sprintf("%s (%s)", name, command)
}
