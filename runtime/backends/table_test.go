package backends

import (
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
	"wolffia/runtime/launch"
)

// The document has what each backend states.
func TestTable(t *testing.T) {
	var b strings.Builder
	row := func(first string, cell func(*launch.Backend) string) {
		b.WriteString("| " + first + " |")
		for _, backend := range All() {
			b.WriteString(" " + cell(&backend) + " |")
		}
		b.WriteString("\n")
	}
	row("", func(backend *launch.Backend) string { return backend.Name() })
	row("---", func(*launch.Backend) string { return "---" })
	places := []string{launch.BesideShim: "`BesideShim`", launch.InEngine: "`InEngine`", launch.Elsewhere: "`Elsewhere`"}
	row("place of PID 1", func(backend *launch.Backend) string { return places[backend.Place] })
	rows := []string{
		"`ShimMounts`: gets mounts of the shim's namespace, not paths of the host",
		"`HostCgroup`: fits into one control group of the host",
		"`StoreImages`: runs images of the image store",
		"`OwnKernel`: has a kernel of its own",
		"`HostInodes`: shows the codebase with the host's inode numbers",
		"`HostProcesses`: has processes that the shim sees",
		"`PassClients`: can pass clients' connections to PID 1",
	}
	if last := launch.Capabilities(1) << (len(rows) - 1); last != launch.PassClients {
		t.Errorf("%d rows; the last capability is %b", len(rows), launch.PassClients)
	}
	for i, text := range rows {
		row(text, func(backend *launch.Backend) string {
			if backend.Can.Has(1 << i) {
				return "yes"
			}
			return ""
		})
	}
	doctable.Check(t, "../../docs/backends.md", "capabilities", b.String())
}
