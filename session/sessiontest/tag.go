package sessiontest

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

var tags atomic.Int64

// newTag returns an argument for sleep that no other process has.
func newTag() string {
	return fmt.Sprintf("86400.%d%06d", os.Getpid(), tags.Add(1))
}

// count returns how many processes inside sleep for the tag. The tag is not in
// the script, which would count itself.
func (e *env) count(tag string) int {
	e.Helper()
	all := e.outside(`for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f; echo; done 2>/dev/null; true`)
	return strings.Count(all, "sleep "+tag+" \n")
}

// runs waits until n processes sleep for the tag.
func (e *env) runs(tag string, n int) {
	e.Helper()
	e.Until(fmt.Sprintf("%d processes", n), func() bool { return e.count(tag) == n })
}

// gone waits until no process inside has the tag.
func (e *env) gone(tag string) {
	e.Helper()
	e.runs(tag, 0)
}
