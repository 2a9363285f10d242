package runtimetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

var tags atomic.Int64

// newTag returns an argument for sleep that no other process has.
func newTag() string {
	return fmt.Sprintf("86400.%d%06d", os.Getpid(), tags.Add(1))
}

// count returns how many processes inside have the tag as their argument. The
// tag is not in the script, which would count itself.
func (e *env) count(id, tag string) int {
	e.Helper()
	r := e.sh(id, `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f; echo; done 2>/dev/null`)
	return strings.Count(string(r.Stdout), "sleep "+tag+" \n")
}

// gone waits until no process inside has the tag.
func (e *env) gone(id, tag string) {
	e.Helper()
	e.Until("the end of all processes", func() bool { return e.count(id, tag) == 0 })
}

// onHost returns how many processes the host sees that have the tag.
func onHost(tag string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Equal(b, []byte("sleep\x00"+tag+"\x00")) {
			n++
		}
	}
	return n
}
