package policy_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadme: the example that is compiled is the one that README.md shows.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	var want strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(body, "}\n")) {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	if !strings.Contains(string(readme), "```go\n"+want.String()+"```\n") {
		t.Errorf("README.md does not have the example:\n%s", want.String())
	}
}
