package attack

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/attack-matrix.md")

func TestDocument(t *testing.T) {
	const file = "../../../docs/attack-matrix.md"
	got := Document()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-page +table (go test ./internal/test/attack -update writes it):\n%s", diff)
	}
}

// The table is whole: ids say their group and are unique, and where backends or
// callers differ it says why.
func TestTable(t *testing.T) {
	var verdicts []Verdict
	for _, m := range meanings {
		verdicts = append(verdicts, m.Verdict)
	}
	seen := map[string]bool{}
	for _, g := range Groups() {
		for _, r := range g.Rows {
			if !strings.HasPrefix(r.ID, g.Name+".") || seen[r.ID] {
				t.Errorf("id %q in group %s", r.ID, g.Name)
			}
			seen[r.ID] = true
			if r.Tries == "" || r.Source == "" || strings.ContainsAny(r.Tries+r.Source+r.note, "|\n") {
				t.Errorf(`%s: got r.Tries %q, r.Source %q, r.note %q; want r.Tries != "" and r.Source != "" and not strings.ContainsAny(r.Tries+r.Source+r.note, %q)`,
					r.ID, r.Tries, r.Source, r.note, "|\n")
			}
			if (r.Do == nil) != (r.In == Outside) {
				t.Errorf("%s: in a sandbox, or outside?", r.ID)
			}
			for _, backend := range Backends {
				for _, caller := range Callers {
					v := r.On(backend, caller)
					if !slices.Contains(verdicts, v) {
						t.Errorf("%s on %s as %s: %q", r.ID, backend, caller, v)
					}
					if (v != r.all || v == Allowed) && r.note == "" {
						t.Errorf("%s on %s as %s: %s, and not why", r.ID, backend, caller, v)
					}
				}
			}
			for cell := range r.but {
				backend, caller, both := strings.Cut(cell, "/")
				if !slices.Contains(append(Backends, Callers...), backend) || both && !slices.Contains(Callers, caller) {
					t.Errorf("%s: there is no cell %q", r.ID, cell)
				}
			}
		}
	}
	if len(seen) < 150 {
		t.Errorf("only %d rows", len(seen))
	}
}

func TestJudge(t *testing.T) {
	for observation, want := range map[string]Verdict{
		"works": Allowed, "works: 5 bytes": Allowed, "works /dev/sda": Allowed,
		"EPERM": Refused, "EROFS /": Refused, "refused EINVAL": Refused, "stripped": Refused,
		"ENOENT": Hidden, "ESRCH": Hidden, "hidden": Hidden,
		"EDQUOT": Bounded, "bounded (killed)": Bounded, "ended: memory": Ended,
		"own": Own, "empty ENOENT": Empty, "n/a": NA,
	} {
		if got := Judge(observation); got != want {
			t.Errorf("%q: %q, want %q", observation, got, want)
		}
	}
	// Nothing that was not expected is a verdict.
	for _, observation := range []string{"", "EFAULT", "EINVAL", "reached EPERM", "mixed", "hangs", "SIGSEGV", "the sandbox does not live", "fails: EPERM", "allowed", "worksx"} {
		if got := Judge(observation); !strings.HasPrefix(string(got), "unknown: ") {
			t.Errorf(`%q: got %q; want got begins with "unknown: "`, observation, got)
		}
	}
}

func TestOn(t *testing.T) {
	w := all(Refused).on("gvisor", Own, "a.").on("root", NA, "b.").on("gvisor/root", Ended, "")
	for cell, want := range map[[2]string]Verdict{
		{"bwrap", "user"}: Refused, {"gvisor", "user"}: Own, {"docker", "root"}: NA, {"gvisor", "root"}: Ended,
	} {
		if got := w.On(cell[0], cell[1]); got != want {
			t.Errorf("%v: %s, want %s", cell, got, want)
		}
	}
	if w.note != "a. b." {
		t.Errorf("note %q", w.note)
	}
}
