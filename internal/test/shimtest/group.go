package shimtest

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"wolffia/internal/test/wait"
)

// infixes are in the names of the control groups of sandboxes, one for each state directory.
type infixes struct {
	mu  sync.Mutex
	all []string
}

// states are those of the runtimes whose tests are over.
var states infixes

func (i *infixes) add(t testing.TB, state string) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(state, &st); err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	i.all = append(i.all, fmt.Sprintf("-%x-%x-", st.Dev, st.Ino))
	i.mu.Unlock()
}

// groups returns the groups that there are. There should be some or none; what systemd is about
// to remove may take a moment.
func (i *infixes) groups(some bool) (left []string) {
	wait.Poll(func() bool {
		left = nil
		err := filepath.WalkDir("/sys/fs/cgroup", func(dir string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && i.has(d.Name()+"-") {
				left = append(left, dir)
			}
			return nil // what comes and goes meanwhile is others'
		})
		return err != nil || some || len(left) == 0
	})
	return left
}

func (i *infixes) has(name string) bool {
	return slices.ContainsFunc(i.all, func(infix string) bool { return strings.Contains(name, infix) })
}

// groups are the control groups of a state directory's sandboxes.
func groups(t testing.TB, state string, some bool) []string {
	t.Helper()
	var one infixes
	one.add(t, state)
	return one.groups(some)
}
