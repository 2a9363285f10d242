package attacktest

import (
	"maps"
	"testing"

	"wolffia/internal/test/attack"
)

// The parts of the table belong together: each row that the host does is done, and
// nothing is left of rows that are gone.
func TestParts(t *testing.T) {
	done := maps.Clone(outside)
	ids := map[string]bool{}
	for _, row := range attack.Rows() {
		ids[row.ID] = true
		if row.In == attack.Outside && done[row.ID] == nil {
			t.Errorf("no program does %s", row.ID)
		}
		if row.In == attack.Outside {
			delete(done, row.ID)
		}
	}
	for id := range done {
		t.Errorf("the table has no %s", id)
	}
	for id := range afterwards {
		if !ids[id] {
			t.Errorf("the table has no %s", id)
		}
	}
}
