package cow

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// rounds is how many random rounds a test does.
func rounds(t *testing.T, short, full int) int {
	t.Helper()
	if testenv.Full() {
		return full
	}
	return short
}

func (m *model) apply(o runtime.ApplyOptions) (*runtime.ApplyResult, error) {
	m.t.Helper()
	r, err := m.layers().Apply(o)
	if r == nil {
		m.t.Fatal(err)
	}
	m.clean()
	return r, err
}

// clean checks that nothing temporary is left.
func (m *model) clean() {
	m.t.Helper()
	for p := range m.hostView() {
		if strings.Contains(p, ".wolffia-") {
			m.t.Errorf("%q is left on the host", p)
		}
	}
	for _, dir := range []string{"work"} {
		if left, err := os.ReadDir(filepath.Join(m.dir, dir)); err != nil || len(left) > 0 {
			m.t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
	if st, err := os.Stat(filepath.Join(m.dir, "undo")); err != nil || st.Size() > 0 {
		m.t.Errorf("the undo log is not empty: %v", err)
	}
}

// TestApplyIsWhatTheSandboxSaw applies random changes several times to the same layers.
func TestApplyIsWhatTheSandboxSaw(t *testing.T) {
	for seed := range rounds(t, 20, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		m := newModel(t)
		m.seedHost(r)
		for turn := range 3 {
			for range 25 {
				m.act(r)
			}
			if r.IntN(2) == 0 {
				m.must(m.layers().Compact())
			}
			want := m.view()
			result, err := m.apply(runtime.ApplyOptions{})
			if err != nil {
				t.Fatalf("seed %d, turn %d: %v: %+v", seed, turn, err, result.Left)
			}
			if diff := differences(want, m.hostView()); len(diff) > 0 {
				t.Fatalf("seed %d, turn %d: the host has\n%s", seed, turn, strings.Join(diff, "\n"))
			}
			if diff := differences(want, m.view()); len(diff) > 0 {
				t.Fatalf("seed %d, turn %d: the sandbox has\n%s", seed, turn, strings.Join(diff, "\n"))
			}
			if left, err := m.layers().Changes(runtime.ChangesOptions{}); err != nil || len(left) > 0 {
				t.Fatalf("seed %d, turn %d: changes after apply: %+v %v", seed, turn, left, err)
			}
		}
	}
}

// crash is the panic of a test in place of a kill.
type crash struct{}

// TestApplyAfterCrashes kills Apply at random moments, again and again: in the end the host has
// what the sandbox saw.
func TestApplyAfterCrashes(t *testing.T) {
	crashed := 0
	for seed := range rounds(t, 50, 2000) {
		m, r := newWorld(t, seed, 3, 25)
		want := m.view()
		for try := 0; ; try++ {
			if m.applyUntil(seed, r.IntN(30+10*try)) {
				break
			}
			crashed++
			if diff := differences(want, m.view()); len(diff) > 0 && try == 0 {
				// A directory that is renamed on the host and not yet in the upper layer may be
				// missing for the moment; nothing else may.
				t.Logf("seed %d: until the next apply the sandbox has\n%s", seed, strings.Join(diff, "\n"))
			}
		}
		if diff := differences(want, m.hostView()); len(diff) > 0 {
			t.Fatalf("seed %d: the host has\n%s", seed, strings.Join(diff, "\n"))
		}
		if diff := differences(want, m.view()); len(diff) > 0 {
			t.Fatalf("seed %d: the sandbox has\n%s", seed, strings.Join(diff, "\n"))
		}
		m.clean()
	}
	if crashed < 20 {
		t.Errorf("only %d crashes", crashed)
	}
}

// applyUntil applies all, and is killed at the given failpoint; it reports whether it came to its
// end.
func (m *model) applyUntil(seed, points int) (done bool) {
	m.t.Helper()
	done, result, err := m.tryUntil(points)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(m.dir, "base.log"))
		m.t.Fatalf("seed %d, after a crash: %v: %+v\n%+v\n%s", seed, err, result, m.hostView(), log)
	}
	return done
}

// tryUntil is applyUntil, and returns what Apply has, if it came to its end.
func (m *model) tryUntil(points int) (done bool, result *runtime.ApplyResult, err error) {
	m.t.Helper()
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(crash); !ok {
				panic(e)
			}
			m.must(m.log.Close())
			m.openLog()
		}
	}()
	l := m.layers()
	l.test = func(string) {
		if points--; points < 0 {
			panic(crash{})
		}
	}
	result, err = l.Apply(runtime.ApplyOptions{})
	return true, result, err
}

// TestApplyStops stops Apply at random moments: the changes that it reports as applied are on the
// host, the others are not, no temporary file is there, and in the end the host has what the
// sandbox saw.
func TestApplyStops(t *testing.T) {
	stops, some := 0, 0
	for seed := range rounds(t, 50, 2000) {
		m, r := newWorld(t, seed, 22, 25)
		want := m.view()
		for try := 0; ; try++ {
			before, err := m.layers().Changes(runtime.ChangesOptions{})
			m.must(err)
			l, checks := m.layers(), r.IntN(40+20*try)
			l.Stopped = func() bool { checks--; return checks < 0 }
			result, err := l.Apply(runtime.ApplyOptions{})
			m.clean()
			if err == nil {
				break
			}
			if !errors.Is(err, errStopped) {
				t.Fatalf("seed %d: %v: %+v", seed, err, result)
			}
			stops++
			if diff := differences(want, m.view()); len(diff) > 0 {
				t.Fatalf("seed %d: the sandbox has\n%s", seed, strings.Join(diff, "\n"))
			}
			after, err := m.layers().Changes(runtime.ChangesOptions{})
			m.must(err)
			if result == nil {
				result = &runtime.ApplyResult{Left: before}
			}
			if some += len(result.Applied); len(result.Applied)+len(result.Left) != len(before) {
				t.Fatalf("seed %d: %d applied and %d left of %d", seed, len(result.Applied), len(result.Left), len(before))
			}
			for _, c := range result.Applied {
				if slices.ContainsFunc(after, func(d runtime.Change) bool { return d.Path == c.Path && d.Kind != runtime.ChangeMode }) {
					t.Fatalf("seed %d: %s was applied, and is left: %+v", seed, c.Path, after)
				}
			}
			for _, c := range result.Left {
				if !slices.ContainsFunc(after, func(d runtime.Change) bool { return d.Path == c.Path }) {
					t.Fatalf("seed %d: %s was left, and is no change: %+v", seed, c.Path, after)
				}
			}
		}
		if diff := differences(want, m.hostView()); len(diff) > 0 {
			t.Fatalf("seed %d: the host has\n%s", seed, strings.Join(diff, "\n"))
		}
	}
	if stops < 20 || some < 20 {
		t.Errorf("only %d stops, %d changes applied before", stops, some)
	}
}

// TestApplyBesideTheHost applies while the host has changed files too: nothing that the host has
// made is lost, and nothing is deleted that the rules hide.
func TestApplyBesideTheHost(t *testing.T) {
	conflicts := 0
	for seed := range rounds(t, 50, 2000) {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		m := newModel(t, "secret=none")
		m.seedHost(r)
		for p := range m.hostView() {
			if lstat(m.host(p)).isDir() && r.IntN(4) == 0 {
				m.must(os.WriteFile(m.host(filepath.Join(p, "secret")), []byte("secret "+p), 0o644))
			}
		}
		for range 20 {
			m.act(r)
		}
		for range r.IntN(4) {
			m.actHost(r)
		}
		before := m.hostView()
		changes, err := m.layers().Changes(runtime.ChangesOptions{})
		m.must(err)
		if _, err := m.apply(runtime.ApplyOptions{}); err != nil {
			conflicts++
			if diff := differences(before, m.hostView()); len(diff) > 0 {
				t.Fatalf("seed %d: %v, and the host has\n%s", seed, err, strings.Join(diff, "\n"))
			}
			force := r.IntN(3) == 0
			for _, c := range changes {
				result, err := m.layers().Apply(runtime.ApplyOptions{Paths: []string{c.Path}, Force: force})
				if err != nil && runtime.Class(err) != runtime.ErrConflict && runtime.Class(err) != runtime.ErrNotFound && runtime.Class(err) != runtime.ErrDenied {
					t.Fatalf("seed %d: %s: %v %+v", seed, c.Path, err, result)
				}
			}
			m.clean()
			if force {
				before = only(before, "secret ")
			}
		}
		after := m.hostView()
		contents := map[string]bool{}
		for _, what := range after {
			contents[contentOf(what)] = true
		}
		for p, what := range before {
			if c := contentOf(what); (strings.Contains(c, "host's") || strings.Contains(c, "secret ")) && !contents[c] {
				t.Fatalf("seed %d: %q is lost: %s\nchanges: %+v", seed, p, what, changes)
			}
		}
	}
	if conflicts < 7 {
		t.Errorf("only %d rounds with conflicts", conflicts)
	}
}

func contentOf(what string) string {
	if f := strings.SplitN(what, " ", 4); f[0] == "file" {
		return f[3]
	}
	return ""
}

// only returns the files of a view with a text in them.
func only(view map[string]string, text string) map[string]string {
	some := map[string]string{}
	for p, what := range view {
		if strings.Contains(what, text) {
			some[p] = what
		}
	}
	return some
}

// TestDiscard takes changes back one by one, in a random order: each time the rest can be applied,
// and in the end the sandbox has what the host has.
func TestDiscard(t *testing.T) {
	for seed := range rounds(t, 30, 1000) {
		m, r := newWorld(t, seed, 5, 25)
		before := m.hostView()
		stop := r.IntN(8)
		for n := 0; ; n++ {
			changes, err := m.layers().Changes(runtime.ChangesOptions{})
			m.must(err)
			for _, c := range changes {
				if c.Conflict != "" || c.Denied != "" {
					t.Fatalf("seed %d, %d: %+v", seed, n, c)
				}
			}
			if len(changes) == 0 || n == stop {
				break
			}
			path := changes[r.IntN(len(changes))].Path
			count, err := m.layers().Discard([]string{path})
			if runtime.Class(err) == runtime.ErrInvalid {
				continue
			}
			if err != nil || count < 1 {
				t.Fatalf("seed %d, %d: discard %q: %d %v", seed, n, path, count, err)
			}
		}
		if diff := differences(before, m.hostView()); len(diff) > 0 {
			t.Fatalf("seed %d: discard changed the host\n%s", seed, strings.Join(diff, "\n"))
		}
		want := m.view()
		if stop == 0 {
			_, err := m.layers().Discard(nil)
			m.must(err)
			want = before
		} else if _, err := m.apply(runtime.ApplyOptions{}); err != nil {
			t.Fatalf("seed %d: apply the rest: %v", seed, err)
		}
		if diff := differences(want, m.hostView()); len(diff) > 0 {
			t.Fatalf("seed %d: the host has\n%s", seed, strings.Join(diff, "\n"))
		}
		if diff := differences(want, m.view()); len(diff) > 0 {
			t.Fatalf("seed %d: the sandbox has\n%s", seed, strings.Join(diff, "\n"))
		}
	}
}

// TestCopy: a copy shows the same, and neither follows the other.
func TestCopy(t *testing.T) {
	for seed := range rounds(t, 8, 200) {
		m, r := newWorld(t, seed, 6, 30)
		want := m.view()
		fork := *m
		fork.dir, fork.done = fastDir(t), nil
		m.must(os.Symlink(filepath.Join(m.dir, "host"), filepath.Join(fork.dir, "host")))
		for _, dir := range []string{"upper", "work"} {
			m.must(os.Mkdir(filepath.Join(fork.dir, dir), 0o700))
		}
		log, err := os.OpenFile(filepath.Join(fork.dir, "base.log"), os.O_RDWR|os.O_CREATE, 0o600)
		m.must(err)
		m.must(os.Chmod(filepath.Join(m.dir, "upper"), 0o750)) // the codebase's, as the sandbox sees it
		m.must(m.layers().Copy(openTestDir(t, filepath.Join(fork.dir, "upper")), log))
		m.must(log.Close())
		if st, err := os.Stat(filepath.Join(fork.dir, "upper")); err != nil || st.Mode().Perm() != 0o750 {
			t.Fatalf("the copy of the codebase's own directory: %v, %v", st, err)
		}
		fork.openLog()
		if diff := differences(want, fork.view()); len(diff) > 0 {
			t.Fatalf("seed %d: the copy has\n%s", seed, strings.Join(diff, "\n"))
		}
		a, err := m.layers().Changes(runtime.ChangesOptions{Lines: true})
		m.must(err)
		b, err := fork.layers().Changes(runtime.ChangesOptions{Lines: true})
		m.must(err)
		if !slices.Equal(a, b) {
			t.Fatalf("seed %d: changes\n%+v\nof the copy\n%+v", seed, a, b)
		}
		for range 10 {
			fork.act(r)
		}
		if diff := differences(want, m.view()); len(diff) > 0 {
			t.Fatalf("seed %d: after changes of the copy\n%s", seed, strings.Join(diff, "\n"))
		}
	}
}
