package cow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
)

// hunks selects hunks of what the model shows of a path now.
func (m *model) hunks(path string, only ...int) runtime.Hunks {
	sum := sha256.Sum256([]byte(m.diff(path)))
	return runtime.Hunks{Path: path, Digest: hex.EncodeToString(sum[:]), Only: only}
}

// splitDiff returns the header of a diff of one file, and its hunks.
func splitDiff(diff string) (head string, hunks []string) {
	parts := strings.SplitAfter(diff, "\n")
	for _, l := range parts {
		switch {
		case strings.HasPrefix(l, "@@ "):
			hunks = append(hunks, l)
		case len(hunks) > 0:
			hunks[len(hunks)-1] += l
		default:
			head += l
		}
	}
	return head, hunks
}

// TestHunksAreWhatGitApplies applies random hunks of random texts, one selection after the other:
// the host has what git makes of the same hunks, and in the end what the sandbox has.
func TestHunksAreWhatGitApplies(t *testing.T) {
	for seed := range rounds(t, 30, 2000) {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		m := newModel(t)
		m.writeHost("f", "")
		var old, now strings.Builder
		for i := range 40 + r.IntN(60) {
			if r.IntN(12) > 0 {
				fmt.Fprintf(&old, "line %d\n", i)
			}
			if r.IntN(12) > 0 {
				fmt.Fprintf(&now, "line %d\n", i)
			}
		}
		end := []string{"", "last", "last\n"}
		old.WriteString(end[r.IntN(3)])
		now.WriteString(end[r.IntN(3)])
		m.must(os.WriteFile(m.host("f"), []byte(old.String()), 0o644))
		m.write("f", now.String(), 0)
		for turn := 0; len(m.changes()) > 0; turn++ {
			diff := m.diff("f")
			head, all := splitDiff(diff)
			if turn > 200 || len(all) == 0 {
				t.Fatalf("seed %d: hunks are left:\n%s", seed, diff)
			}
			var only []int
			patch := head
			for i, h := range all {
				if r.IntN(2) == 0 {
					only, patch = append(only, i), patch+h
				}
			}
			if len(only) == 0 {
				continue
			}
			before, err := os.ReadFile(m.host("f"))
			m.must(err)
			m.must(os.WriteFile(m.dir+"/f", before, 0o600))
			if out, err := git(t, m.dir, patch, "apply", "--whitespace=nowarn"); err != nil {
				t.Fatalf("seed %d: git: %v: %s\n%s", seed, err, out, patch)
			}
			want, err := os.ReadFile(m.dir + "/f")
			m.must(err)
			m.must(os.Remove(m.dir + "/f"))
			if _, err := m.apply(runtime.ApplyOptions{Hunks: []runtime.Hunks{m.hunks("f", only...)}}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if got, err := os.ReadFile(m.host("f")); err != nil || string(got) != string(want) {
				t.Fatalf("seed %d: hunks %v gave %q (%v), git makes %q of\n%s", seed, only, got, err, want, diff)
			}
			if c := m.changes(); len(c) > 0 && (len(c) != 1 || c[0].Conflict != "" || c[0].Kind != runtime.ChangeModified) {
				t.Fatalf("seed %d: after hunks %v the changes are %+v", seed, only, c)
			}
		}
		if got, err := os.ReadFile(m.host("f")); err != nil || string(got) != now.String() {
			t.Fatalf("seed %d: all hunks gave %q (%v), want %q", seed, got, err, now.String())
		}
	}
}

// Of several changes only what is selected is applied, and the mode stays the host's.
func TestHunksLeaveTheRest(t *testing.T) {
	m := newModel(t)
	text := strings.Repeat("x\n", 20)
	m.must(os.WriteFile(m.host("f"), []byte("a\n"+text+"b\n"), 0o644))
	m.must(os.WriteFile(m.host("other"), []byte("o\n"), 0o644))
	m.write("f", "A\n"+text+"B\n", 0)
	m.chmod("f", 0o755)
	m.write("other", "p\n", 0)
	_, err := m.apply(runtime.ApplyOptions{Hunks: []runtime.Hunks{m.hunks("f", 1)}})
	m.must(err)
	got, err := os.ReadFile(m.host("f"))
	m.must(err)
	st, err := os.Stat(m.host("f"))
	m.must(err)
	if string(got) != "a\n"+text+"B\n" || st.Mode() != 0o644 {
		t.Errorf("the host has %q, mode %v", got, st.Mode())
	}
	if other, err := os.ReadFile(m.host("other")); err != nil || string(other) != "o\n" {
		t.Errorf("the other file has %q, %v", other, err)
	}
	names := []string{}
	for _, c := range m.changes() {
		names = append(names, c.Path)
	}
	if !slices.Equal(names, []string{"f", "other"}) {
		t.Errorf("the changes left are of %q", names)
	}
}

func TestHunksAreRefused(t *testing.T) {
	m := newModel(t)
	m.must(os.WriteFile(m.host("f"), []byte("a\n"), 0o644))
	m.must(os.WriteFile(m.host("bin"), []byte("a\x00"), 0o644))
	m.write("f", "b\n", 0)
	m.write("bin", "b\x00", 0)
	m.write("new", "n\n", 0o644)
	stale := m.hunks("f", 0)
	m.write("f", "c\n", 0)
	before := files(m.hostView())
	for what, c := range map[string]struct {
		hunks runtime.Hunks
		class error
	}{
		"what was changed since": {stale, runtime.ErrConflict},
		"a hunk too many":        {m.hunks("f", 0, 1), runtime.ErrInvalid},
		"a negative one":         {m.hunks("f", -1), runtime.ErrInvalid},
		"none":                   {m.hunks("f"), runtime.ErrInvalid},
		"not text":               {m.hunks("bin", 0), runtime.ErrInvalid},
		"a new file":             {m.hunks("new", 0), runtime.ErrInvalid},
		"no change":              {runtime.Hunks{Path: "none", Only: []int{0}}, runtime.ErrNotFound},
	} {
		_, err := m.layers().Apply(runtime.ApplyOptions{Hunks: []runtime.Hunks{c.hunks}})
		if runtime.Class(err) != c.class {
			t.Errorf("%s: got %v, want the class of %v", what, err, c.class)
		}
	}
	m.must(os.WriteFile(m.host("f"), []byte("host\n"), 0o644)) // the digest is of another text then
	now := m.hunks("f", 0)
	if _, err := m.layers().Apply(runtime.ApplyOptions{Hunks: []runtime.Hunks{now}}); runtime.Class(err) != runtime.ErrConflict {
		t.Errorf("what the host has changed: got %v", err)
	}
	m.must(os.WriteFile(m.host("f"), []byte("a\n"), 0o644))
	if left := differences(before, files(m.hostView())); len(left) > 0 {
		t.Errorf("refused hunks have changed the host: %s", strings.Join(left, "\n"))
	}
}
