package gitguard

import (
	"slices"
	"testing"
)

func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  bool
	}{
		{[]string{"HEAD", "objects", "refs"}, true},
		{[]string{"HEAD", "objects", "reftable"}, true},
		{[]string{"HEAD", "commondir"}, true},
		{[]string{"objects", "refs", "config", "commondir"}, false},
		{[]string{"HEAD", "objects"}, false},
		{[]string{"HEAD", "refs"}, false},
	} {
		if got := Complete(func(s string) bool { return slices.Contains(tt.names, s) }); got != tt.want {
			t.Errorf("%q: got %t, want %t", tt.names, got, tt.want)
		}
		for _, name := range tt.names {
			if !Essential(name) && name != "config" {
				t.Errorf("%q is not essential", name)
			}
		}
	}
}
