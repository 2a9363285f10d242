package cow

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/runtime"
)

// Acceptance test 12 of copy-on-write, without a device that can be cut off:
// TestApplyAfterPowerCuts and TestApplyFlushesNamesFirst.

// TestApplyAfterPowerCuts stops Apply at random moments, again and again, and cuts off what the
// log has got since its last flush. In the end the host has what the sandbox saw, or the record of
// a deletion was lost: then that is a conflict, and the sandbox has all that it had.
func TestApplyAfterPowerCuts(t *testing.T) {
	cuts, conflicts := 0, 0
	for seed := range rounds(t, 40, 1000) {
		m, r := newWorld(t, seed, 12, 25)
		want := m.view()
		m.must(m.log.Sync()) // what a copy hides is recorded and flushed before
		lost := false
		for try := 0; ; try++ {
			log := m.log
			done, result, err := m.tryUntil(r.IntN(30 + 10*try))
			if lost = errors.Is(err, runtime.ErrConflict); lost {
				conflicts++
				for _, c := range result.Left {
					if c.Conflict != "" && c.Kind != runtime.ChangeDeleted {
						t.Errorf("seed %d: %+v", seed, c)
					}
				}
			} else {
				m.must(err)
			}
			if done {
				break
			}
			at := filepath.Join(m.dir, "base.log")
			m.must(m.log.Close())
			if log.end > log.synced {
				cuts++
				m.must(os.Truncate(at, log.synced+r.Int64N(log.end-log.synced)))
			}
			m.openLog()
			m.must(m.log.Sync()) // what is left was on the disk
			if r.IntN(2) == 0 {
				m.must(m.layers().Compact())
			}
		}
		if diff := differences(want, m.hostView()); len(diff) > 0 && !lost {
			t.Fatalf("seed %d: the host has\n%s", seed, strings.Join(diff, "\n"))
		}
		if diff := differences(want, m.view()); len(diff) > 0 {
			t.Fatalf("seed %d: the sandbox has\n%s", seed, strings.Join(diff, "\n"))
		}
		m.clean()
	}
	t.Logf("%d cuts, %d conflicts", cuts, conflicts)
	if cuts < 10 || conflicts > cuts/2 {
		t.Errorf("%d cuts, %d conflicts", cuts, conflicts)
	}
}

// TestApplyFlushesNamesFirst: the log says that a file was applied after the host's directory was
// flushed. Else a power cut could leave the old file there, and the next start would fold the
// sandbox's away.
func TestApplyFlushesNamesFirst(t *testing.T) {
	checked := 0
	for seed := range rounds(t, 10, 100) {
		m, _ := newWorld(t, seed, 13, 40)
		l := m.layers()
		batch, end := false, int64(0)
		l.test = func(name string) {
			switch name {
			case "apply: next file":
				if !batch {
					batch, end = true, l.Log.end
				}
			case "apply: names flushed":
				batch = false
			}
			if batch && l.Log.end != end {
				t.Errorf("seed %d: the log has got more at %q", seed, name)
			}
			if batch {
				checked++
			}
		}
		_, err := l.Apply(runtime.ApplyOptions{})
		m.must(err)
		if batch {
			t.Errorf("seed %d: names are not flushed", seed)
		}
	}
	if checked == 0 {
		t.Error("no file was put in place")
	}
}
