package cow

import (
	"math/rand/v2"
	"os"
	"path/filepath"
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
	for seed := range rounds(t, 60, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		m := newModel(t)
		m.seedHost(r)
		for turn := range 3 {
			for range 25 {
				m.act(r)
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
