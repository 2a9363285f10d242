package main

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
)

// A sandbox starts also if what was applied cannot be compacted: else its work would be out of reach. The log has the reason.
func TestStartWithoutCompact(t *testing.T) {
	b := newBox(t)
	b.says("rm", "-f", "box")
	b.says("create", "--cow", "--codebase", b.codebase, "--name", "box")
	b.says("exec", "box", "--", "sh", "-c", "mkdir damaged; echo applied >file")
	b.says("apply", "--quiet", "box")
	b.says("exec", "box", "--", "sh", "-c", "echo precious >work")
	b.says("stop", "box")
	found, err := filepath.Glob(filepath.Join(b.state, "sandboxes", "*", "cow", "upper", "damaged"))
	b.OK(err)
	if len(found) != 1 {
		b.Fatalf("the upper layer is at %q", found)
	}
	b.OK(unix.Setxattr(found[0], cow.AttrLower, []byte("../x"), 0))
	b.says("start", "box")
	if got := b.says("exec", "box", "--", "cat", "work"); got != "precious\n" {
		b.Errorf("inside is %q", got)
	}
	if log := b.says("logs", "box"); !strings.Contains(log, "compact the upper layer") {
		b.Errorf("the log has\n%s", log)
	}
}
