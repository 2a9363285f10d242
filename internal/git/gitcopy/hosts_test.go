package gitcopy

import (
	"os"
	"sync"
	"testing"
)

// Each git directory has one number, whichever process asks, and a Copier shows those that others
// have added.
func TestNumber(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir.Name()+"/work", 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Options{Dir: dir, Work: "work", Hosts: "hosts.json", Mark: "changed"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all sync.WaitGroup
	for range 8 {
		for _, at := range []string{"/", "/proc", "/dev"} {
			all.Go(func() {
				n, err := Number(t.Context(), dir, "hosts.json", at, nil)
				if m, err2 := c.number(at); n != m || err != nil || err2 != nil {
					t.Errorf("%s has the numbers %d and %d: %v, %v", at, n, m, err, err2)
				}
			})
		}
	}
	all.Wait()
	given := ""
	n, err := Number(t.Context(), dir, "hosts.json", "/sys", func(path string) error { given = path; return nil })
	if n != 3 || err != nil || given != dir.Name()+"/hosts.json" {
		t.Errorf("the number is %d, %v; given is %q", n, err, given)
	}
	if _, ok := c.Objects(n); !ok {
		t.Error("it is not shown")
	}
	if _, ok := c.Objects(n + 1); ok {
		t.Error("one that does not exist is shown")
	}
}
