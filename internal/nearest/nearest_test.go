package nearest_test

import (
	"strings"
	"testing"

	"wolffia/internal/nearest"
)

func TestOf(t *testing.T) {
	names := []string{"go", "npm", "pypi", "crates", "node"}
	for name, want := range map[string]string{
		"nmp": "npm", "npm ": "npm", "pip": "pypi", "crate": "crates", "Crates": "crates", "nodes": "node",
		"": "", "xy": "", "cargo": "", "anything": "", strings.Repeat("npm", 1000): "",
	} {
		if got := nearest.Of(name, names); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}
