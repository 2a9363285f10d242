package fusefs

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The kernel need not make the table of descriptors larger while a tree is walked.
func TestReserve(t *testing.T) {
	if n := tableSize(t); n >= mostReserved {
		t.Skipf("the process has room for %d descriptors already", n)
	}
	d := newFDCache(2000)
	d.reserve(1)
	if n := tableSize(t); n < 2000 {
		t.Errorf("room for %d descriptors, want 2000", n)
	}
	before := tableSize(t)
	newFDCache(1 << 30).reserve(1)
	if n := tableSize(t); n > max(before, mostReserved) {
		t.Errorf("room for %d descriptors, want %d at most", n, mostReserved)
	}
}

// tableSize returns for how many descriptors this process has room.
func tableSize(t *testing.T) (n int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "\nFDSize:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
