//go:build small

package serving

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/host/programs"
	"wolffia/runtime"
)

// serve serves the service, as another program.
func serve(cmd *cobra.Command, h *host.Host) error {
	return execServe(h, cmd.Flag("runtime").Value.String())
}

// serve serves the client, as another program.
func (m *mcpServer) serve(*cobra.Command) error {
	return execServe(m.Host, m.flags.Text("runtime"))
}

// show serves the page, as another program.
func (p *consolePage) show(*cobra.Command) error { return execServe(p.Host, "") }

// execServe executes wolffia-serve in this process, with the same arguments; it returns only
// if that fails. wolffia-serve is this program with what it serves by, whose packages would cost
// each command of the small program a quarter of its time.
func execServe(h *host.Host, backend string) error {
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
