package agent_test

import (
	"flag"
	"regexp"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/transcript"
)

var update = flag.Bool("update", false, "write what the commands print into docs/mcp.md")

// The transcript in docs/mcp.md is what the commands print.
func TestDocument(t *testing.T) {
	testenv.Tools(t, "curl", "sed")
	d := &transcript.Document{
		Path: "../../docs/mcp.md", Place: "127.0.0.1:8080", Address: servetest.New(t, "").Address, Unstable: []transcript.Unstable{
			{Form: regexp.MustCompile(`"duration_ms":\d+`), Stand: `"duration_ms":1`},
			{Form: regexp.MustCompile(`\r`), Stand: ""},
		},
	}
	d.Check(t, *update)
}
