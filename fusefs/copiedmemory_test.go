package fusefs

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// Acceptance test 9: with 100,000 names that are known, some of which are changed, the server of a copied tree takes at most
// 20 % more memory than that of a direct one. What is counted is the live heap, without the lists of directories.
func TestCopiedMemory(t *testing.T) {
	testenv.Soak(t, "it makes 200,000 files")
	const dirs, each = 100, 1000
	var grown [2]int64
	for i, copied := range []bool{false, true} {
		t.Run(map[bool]string{false: "Direct", true: "Copied"}[copied], func(t *testing.T) {
			heaps = nil
			s := setup{Copied: copied, Timeout: time.Hour, Parse: []string{"**=write"}, Host: func(t *testing.T, dir string) {
				for d := range dirs {
					for f := range each {
						write(t, dir, fmt.Sprintf("d%d/f%d", d, f), "")
					}
				}
			}}
			mounted(t, s, func(t *testing.T, c *client) {
				request[uint64](t, c, "heap")
				for d := range dirs {
					for f := range each {
						var st unix.Stat_t
						ok(t, "stat", unix.Stat(c.at(fmt.Sprintf("d%d/f%d", d, f)), &st))
					}
				}
				for f := range each {
					ok(t, "change", os.WriteFile(c.at(fmt.Sprintf("d%d/f%d", f%dirs, f)), []byte("inside"), 0o644))
				}
				if nodes := c.stats(t).Nodes; nodes < dirs*each {
					t.Fatalf("the server knows %d names", nodes)
				}
				request[uint64](t, c, "heap")
			})
			if len(heaps) == 2 { // in the server's process
				grown[i] = heaps[1] - heaps[0]
			}
		})
	}
	if grown[0] == 0 {
		return // the client's process
	}
	ratio := float64(grown[1]) / float64(grown[0])
	t.Logf("direct %d bytes a name, copied %d: %.2f times", grown[0]/dirs/each, grown[1]/dirs/each, ratio)
	if ratio > 1.2 {
		t.Errorf("a copied tree takes %.2f times the memory", ratio)
	}
}
