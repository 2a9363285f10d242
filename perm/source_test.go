package perm_test

import (
	"testing"

	"wolffia/perm"
)

func TestSourceName(t *testing.T) {
	for source, want := range map[string]string{"": "", "preset standard": "preset standard", "rules.yaml:3": "rules.yaml:3", "/home/ann/rules.yaml:3": "rules.yaml:3"} {
		if got := perm.SourceName(source); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}
