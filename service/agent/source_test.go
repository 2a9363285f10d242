package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/runtime"
	"wolffia/service"
)

// What an agent learns of rules has the name of their file, and not where on the host it is.
func TestNoPathsOfRules(t *testing.T) {
	w := servetest.New(t, "", func(o *service.Options) {
		configure := o.Configure
		o.Configure = func(ctx context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
			c, err := configure(ctx, p)
			for i := range c.Permissions {
				c.Permissions[i].Source = "/home/ann/rules.yaml:3"
			}
			return c, err
		}
	})
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "secret"), []byte("password"), 0o644))
	c := connect(w, "/mcp?sandbox=web", "")
	for _, call := range []struct {
		tool string
		args args
	}{
		{"bash", args{"command": "cat /workspace/secret; true"}},
		{"explain_denial", args{"path": "secret"}},
		{"status", nil},
	} {
		text, out := c.ok(call.tool, call.args)
		all, err := json.Marshal(out)
		w.OK(err)
		if text += string(all); strings.Contains(text, "/home/ann") || !strings.Contains(text, "rules.yaml") {
			t.Errorf("%s: got text %s; want text does not contain /home/ann and text contains rules.yaml", call.tool, text)
		}
	}
}
