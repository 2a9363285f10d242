package mock

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// tagVariable is in the environment of every process, and so in that of all
// that it starts: by it they are found, whatever group or session they are in.
const tagVariable = "WOLFFIA_MOCK"

// killAll kills every process whose tag has the prefix, until none is left.
func killAll(tag string) {
	want := []byte("\x00" + tagVariable + "=" + tag)
	for found := true; found; {
		found = false
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range files {
			env, err := os.ReadFile(f) // empty for one that is dead
			if err != nil || !bytes.Contains(append([]byte{0}, env...), want) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
				found = true
			}
		}
	}
}
