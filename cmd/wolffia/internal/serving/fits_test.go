package serving

import (
	"testing"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/runtime"
)

// A sandbox fits if it was made with the same flags and, if its label tells, with the same rules.
func TestFits(t *testing.T) {
	m := &mcpServer{Host: &host.Host{Console: new(console.Console)}, name: "box", digest: "flags"}
	for label, fits := range map[string]bool{"flags-rules": true, "flags-others": false, "others-rules": false, "flags": true, "others": false} {
		err := m.fits(&runtime.Sandbox{Labels: map[string]string{labelMCP: label}}, &runtime.SandboxConfig{}, "rules")
		if (err == nil) != fits {
			t.Errorf("a sandbox with the label %s: %v", label, err)
		}
	}
}
