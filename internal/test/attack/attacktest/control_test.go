package attacktest

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/attack"
	"wolffia/internal/test/testbin"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

// kernels are rows that the kernel refuses by itself, since a descriptor is for reading.
var kernels = []string{
	"readonly.mmap", "readonly.mprotect", "readonly.fallocate", "readonly.copy-range", "readonly.sendfile", "readonly.clone",
}

// Where nothing protects names, what attacks them works: the table's refusals are no
// mistakes of the attacker's.
func TestControl(t *testing.T) {
	for _, row := range attack.Rows() {
		if group, _, _ := strings.Cut(row.ID, "."); group != "hidden" && group != "readonly" || row.In == attack.Outside {
			continue
		}
		t.Run(row.ID, func(t *testing.T) {
			h := newHost(t) // each has its own: what one does another might miss
			w, err := json.Marshal(h.world)
			h.do(t, err)
			cmd := exec.Command(h.path("bin/inside"), "row", string(w), row.ID)
			cmd.Dir = h.path("code")
			out, err := cmd.CombinedOutput()
			h.do(t, err)
			if _, said, _ := strings.Cut(strings.TrimSpace(string(out)), "\t"); (attack.Judge(said) == attack.Allowed) == slices.Contains(kernels, row.ID) {
				t.Errorf("got said %.300s; want (attack.Judge(said) == attack.Allowed) != slices.Contains(kernels, row.ID)", said)
			}
		})
	}
}
