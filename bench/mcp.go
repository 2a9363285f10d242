package main

import (
	"fmt"
	"os"
	"os/exec"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcp measures wolffia mcp by a client of the official SDK, over stdio.
func (b *bench) mcp() error {
	cmd := exec.Command(b.wolffia, "mcp", "-q", "--codebase", b.codebase)
	cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state)
	cmd.Stderr = os.Stderr
	client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	var c *sdk.ClientSession
	call := func(tool string, args map[string]any) error {
		res, err := c.CallTool(b.ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
		if err == nil && res.IsError {
			err = fmt.Errorf("%s: %v", tool, res.Content)
		}
		return err
	}
	first, err := took(func() (err error) {
		if c, err = client.Connect(b.ctx, &sdk.CommandTransport{Command: cmd}, nil); err != nil {
			return err
		}
		return call("bash", map[string]any{"command": "true"})
	})
	if err != nil {
		return err
	}
	defer c.Close()
	b.row("mcp: start of the server to the first result of bash", times{first}, "")
	for _, what := range []struct {
		name, tool string
		args       map[string]any
		bar        string
	}{
		{"mcp: bash, true", "bash", map[string]any{"command": "true"}, "2 ms p50"},
		{"mcp: read_file", "read_file", map[string]any{"path": "README"}, ""},
		{"mcp: grep in one file", "grep", map[string]any{"pattern": "l+o", "path": "README"}, ""},
	} {
		var t times
		for i := range 550 {
			d, err := took(func() error { return call(what.tool, what.args) })
			if err != nil {
				return err
			}
			if i >= 50 {
				t = append(t, d)
			}
		}
		b.row(what.name, t, what.bar)
	}
	return nil
}
