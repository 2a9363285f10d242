package fusefs

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// Acceptance test 9: with 100,000 names that are known, some of which are changed, the server of a
// copied tree takes at most 20 % more memory than that of a direct one. What is counted is the
// live heap, without the lists of directories.
func TestCopiedMemory(t *testing.T) {
	testenv.Soak(t, "it makes 200,000 files")
	const dirs, each = 100, 1000
	var direct int64 // bytes that the server of the direct tree has grown by
	for _, copied := range []bool{false, true} {
		t.Run(map[bool]string{false: "Direct", true: "Copied"}[copied], func(t *testing.T) {
			heaps = nil
			s := setup{Copied: copied, Timeout: time.Hour, Parse: []string{"**=write"}, Host: func(t *testing.T, dir string) {
				for d := range dirs {
					for f := range each {
						write(t, dir, fmt.Sprintf("d%d/f%d", d, f), "")
					}
				}
			}}
			s.After = func(t *testing.T, _ *Server, _ []Denial) { // in the server's process, which has the heaps
				if len(heaps) != 2 || heaps[1] <= heaps[0] {
					t.Fatalf("the live heap was sampled as %d, want two growing numbers", heaps)
				}
				grown := heaps[1] - heaps[0]
				if !copied {
					direct = grown
					return
				}
				if direct == 0 {
					t.Fatal("the direct tree was not measured: run TestCopiedMemory with both its subtests")
				}
				ratio := float64(grown) / float64(direct)
				t.Logf("direct %d bytes a name, copied %d: %.2f times", direct/dirs/each, grown/dirs/each, ratio)
				if ratio > 1.2 {
					t.Errorf("a copied tree takes %.2f times the memory of a direct one, want at most 1.2", ratio)
				}
			}
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
		})
	}
}
