package console

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
)

// diffOf returns what diff(1) says of two texts.
func diffOf(t *testing.T, old, now string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": old, "b": now} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "diff", "-u", "a", "b")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatal(err)
	}
	return out
}

// Without all of its hunks the new text is the old one; without none it is itself; and what is
// taken back in two steps is what is taken back at once.
func TestRevert(t *testing.T) {
	for seed := range 200 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		var old, now strings.Builder
		for i := range 60 {
			line := strings.Repeat(string(rune('a'+i%26)), 1+i/26) + "\n"
			if r.IntN(10) > 0 {
				old.WriteString(line)
			}
			if r.IntN(10) > 0 {
				now.WriteString(line)
			}
		}
		ends := []string{"", "--- end", "+++ end\n", "@@ -1 +1 @@"}
		old.WriteString(ends[r.IntN(4)])
		now.WriteString(ends[r.IntN(4)])
		all := hunksOf(diffOf(t, old.String(), now.String()))
		var some, every []int
		for i := range all {
			every = append(every, i)
			if r.IntN(2) == 0 {
				some = append(some, i)
			}
		}
		for _, c := range []struct {
			hunks []int
			want  string
		}{{every, old.String()}, {nil, now.String()}} {
			if got, err := revert([]byte(now.String()), all, c.hunks); err != nil || string(got) != c.want {
				t.Fatalf("seed %d: without %v: got %q, %v; want %q", seed, c.hunks, got, err, c.want)
			}
		}
		part, err := revert([]byte(now.String()), all, some)
		if err != nil {
			t.Fatal(err)
		}
		rest := hunksOf(diffOf(t, old.String(), string(part)))
		if len(rest) != len(all)-len(some) {
			t.Fatalf("seed %d: without %v of %d hunks %d are left", seed, some, len(all), len(rest))
		}
	}
}

func TestRevertRefuses(t *testing.T) {
	all := hunksOf(diffOf(t, "a\nb\n", "a\nc\n"))
	if _, err := revert([]byte("a\nd\n"), all, []int{0}); runtime.Class(err) != runtime.ErrConflict {
		t.Errorf("another text: got %v", err)
	}
	if _, err := revert([]byte("a\nc\n"), all, []int{1}); runtime.Class(err) != runtime.ErrInvalid {
		t.Errorf("a hunk too many: got %v", err)
	}
}

// A diff is a text of the sandbox: no input makes hunks whose lines do not add up.
func FuzzHunks(f *testing.F) {
	f.Add([]byte("@@ -1,2 +1 @@\n a\n-b\n\\ No newline at end of file\n"))
	f.Add([]byte("@@ -1,999999999 +1 @@\n a\n"))
	f.Add([]byte("@@ -0,0 +1 @@\n+@@ -1 +1 @@\n"))
	f.Fuzz(func(t *testing.T, diff []byte) {
		for _, h := range hunksOf(diff) {
			count := func(op byte) (n int) {
				for _, l := range h.Lines {
					if l.op == ' ' || l.op == op {
						n++
					}
				}
				return n
			}
			if count('-') != h.OldLines || count('+') != h.NewLines {
				t.Errorf("hunk %+v does not add up", h)
			}
			if slices.ContainsFunc(h.Lines, func(l line) bool { return strings.ContainsRune(string(l.text), '\n') }) {
				t.Error("a line has several")
			}
		}
	})
}
