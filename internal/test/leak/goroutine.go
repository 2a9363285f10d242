package leak

import (
	"runtime"
	"strings"
)

// maxStack bounds the dump of all stacks.
const maxStack = 64 << 20

// goroutines adds the goroutines, but the one that asks, those of the standard
// library that stay, and those that are allowed.
func goroutines(all map[string]string, allowed []string) {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStack {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	stacks := strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n")
	for _, stack := range stacks[1:] { // the first is this one
		head, calls, _ := strings.Cut(stack, "\n")
		id, _, _ := strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
		if !stays(calls, allowed) {
			all["goroutine "+id] = stack
		}
	}
}

// stays reports whether a goroutine with these calls is no leak.
func stays(calls string, allowed []string) bool {
	for _, name := range []string{"os/signal.loop", "os/signal.signal_recv", "testing.(*T).Run(", "testing.(*F).Fuzz("} {
		if strings.Contains(calls, name) {
			return true
		}
	}
	for _, name := range allowed {
		if name != "" && strings.Contains(calls, name) {
			return true
		}
	}
	return false
}
