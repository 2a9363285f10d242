//go:build small

package serving

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/boxflags"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/host/programs"
	"wolffia/runtime"
)

// serve serves the service, as another program.
func serve(_ context.Context, h *host.Host, box *boxflags.Sandbox, _ *serveFlags) error {
	return becomeServe(h, box.Text("runtime"))
}

// serve serves the client, as another program.
func (m *mcpServer) serve(*cobra.Command) error {
	return becomeServe(m.Host, m.box.Text("runtime"))
}

// becomeServe executes wolffia-serve in this process, with the same arguments; it returns only
// if that fails. wolffia-serve is this program with what it serves by, whose packages would cost
// each command of the small program a quarter of its time.
func becomeServe(h *host.Host, backend string) error {
	rt, err := h.Open(backend)
	if err != nil {
		return err
	}
	serve, err := host.Program(rt, programs.Serve)
	if err != nil {
		return err
	}
	defer serve.Close()
	args := append([]string{rt.Binary()}, os.Args[1:]...) // see wolffiaFile
	return runtime.Errorf(runtime.ErrUnavailable, "execute %s: %w", programs.Serve, unix.Exec(serve.ExecPath(), args, os.Environ()))
}
