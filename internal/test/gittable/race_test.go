package gittable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/gittable"
	"wolffia/internal/test/testenv"
)

// raceScript is what a user does that has git write its configuration.
const raceScript = `
i=0
while test $i -lt %d; do
	i=$((i+1))
	git config work.n $i
	git remote add r$$-$i ../../remote$i
	git push -q -u origin HEAD:refs/heads/b$i
	git branch -q -u origin/main
	git config --unset remote.r$$-$i.fetch
done
git config -l --local`

// TestRace: a process inside that does all it can to the lock of a configuration, while
// the host's git writes that, brings nothing into it.
func TestRace(t *testing.T) {
	const rounds = 40
	times := 1
	if testenv.Full() {
		times = 45 // about a minute
	}
	lives(t, func(t *testing.T, host string, _ marks) {
		newRigging(t, host).copies(t, "rig")
		writeFile(t, filepath.Join(host, "scratch/x"), "", 0o644)
	}, func(t *testing.T, c *inside) {
		lock := c.at("rig/.git/config.lock")
		config := c.at("rig/.git/config")
		evil := []byte(harmless + gittable.Lines("core.fsmonitor="+c.Marks+"/bin/core.fsmonitor"))
		var over atomic.Bool
		var group sync.WaitGroup
		for i, a := range []struct {
			name string
			do   func(tmp string)
		}{
			{"exchange", func(tmp string) { _ = exchange(tmp, lock) }},
			{"rename onto", func(tmp string) { _ = os.Rename(tmp, lock) }},
			{"link instead", func(tmp string) { _ = os.Remove(lock); _ = os.Link(tmp, lock) }},
			{"write to it", func(string) { with(lock, unix.O_WRONLY, func(fd int) { pwrite(fd, evil) }) }},
			{"make one", func(string) {
				with(lock, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(fd int) {
					pwrite(fd, evil)
					_ = os.Rename(lock, config)
					_ = os.Remove(lock)
				})
			}},
			{"make one and write later", func(string) {
				with(lock, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(fd int) {
					_ = os.Remove(lock)
					pwrite(fd, evil)
				})
			}},
			{"rename and back", func(tmp string) {
				_ = os.Rename(lock, tmp+"l")
				put(tmp+"l", evil)
				_ = os.Rename(tmp+"l", lock)
			}},
		} {
			if !wanted(a.name) {
				continue
			}
			group.Go(func() { // ends when the host is done
				for n := 0; !over.Load(); n++ {
					tmp := c.at(fmt.Sprintf("scratch/%d-%d", i, n%50))
					put(tmp, evil)
					a.do(tmp)
				}
			})
		}
		said := ""
		for range times {
			said += c.host(t, order{Do: "sh", Dir: "rig", Script: fmt.Sprintf(raceScript, rounds)})
		}
		over.Store(true)
		group.Wait()
		// The same without anybody to disturb it.
		control := c.host(t, order{Do: "sh", Dir: "../template/repo", Script: "git remote set-url origin ../remote.git; " + fmt.Sprintf(raceScript, rounds)})
		may := slices.Collect(strings.Lines(control))
		kept := 0
		for line := range strings.Lines(c.host(t, order{Do: "sh", Dir: "rig", Script: "git config -l --local"})) {
			name, _, _ := strings.Cut(line, "=")
			switch {
			case slices.Contains(may, line), name == "work.n", name == "remote.origin.url", strings.HasPrefix(name, "branch."),
				strings.HasPrefix(name, "remote.r") && (strings.Contains(line, "=../../remote") || strings.Contains(line, "refs/remotes/r")): // of a command that failed
				kept++
			default:
				t.Errorf("in the configuration there is %s", line)
			}
		}
		if kept < 8 {
			t.Errorf("the configuration was lost: %.2000s", said)
		}
		if found := c.host(t, order{Do: "look", Dir: "rig"}); found != "" {
			t.Error(found)
		}
		c.host(t, order{Do: "sh", Dir: "rig", Script: "git status"})
		if ran := c.host(t, order{Do: "marks"}); ran != "" {
			t.Errorf("on the host ran %s", ran)
		}
	})
}
