//go:build small

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/internal/host/programs"
	"wolffia/runtime"
)

// serve serves the service, as another program.
func (a *app) serve(_ context.Context, box *boxFlags, _ *serveFlags) error {
	return a.becomeServe(box.Text("runtime"))
}

// serve serves the client, as another program.
func (m *mcpServer) serve(*cobra.Command) error { return m.app.becomeServe(m.box.Text("runtime")) }

// becomeServe executes wolffia-serve in this process, with the same arguments; it returns only
// if that fails. wolffia-serve is this program with what it serves by, whose packages would cost
// each command of the small program a quarter of its time.
func (a *app) becomeServe(backend string) error {
	rt, err := a.open(backend)
	if err != nil {
		return err
	}
	serve, err := program(rt, programs.Serve)
	if err != nil {
		return err
	}
	defer serve.Close()
	args := append([]string{rt.Binary()}, os.Args[1:]...) // see wolffiaFile
	return runtime.Errorf(runtime.ErrUnavailable, "execute %s: %w", programs.Serve, unix.Exec(serve.ExecPath(), args, os.Environ()))
}
