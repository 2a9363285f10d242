package network

import (
	"slices"
	"testing"
)

// What a tool's name means is a list, and no list has that name.
func TestByTool(t *testing.T) {
	names := listNames()
	for tool, list := range byTool {
		if slices.Contains(names, tool) || !slices.Contains(names, list) {
			t.Errorf("@%s means @%s", tool, list)
		}
	}
}
