package container

import (
	"context"

	"wolffia/runtime"
	"wolffia/service"
)

// An Exec is what docker's exec call asks for. The names in JSON are docker's.
type Exec struct {
	AttachStdin, AttachStdout, AttachStderr, Tty, Detach bool
	DetachKeys, User, WorkingDir                         string
	Container                                            string // docker for Python repeats it
	Env                                                  []string
	Cmd                                                  Words
}

// Command returns the command in the sandbox.
func (x *Exec) Command() *runtime.Command {
	return &runtime.Command{
		Command: x.Cmd, Env: Variables(x.Env), Cwd: x.WorkingDir, User: x.User, TTY: x.Tty, OpenStdin: x.AttachStdin,
	}
}

// Background runs the command in a running container without a client. Its output is not kept.
func (x *Exec) Background(ctx context.Context, in *service.Inside) error {
	cmd := x.Command()
	cmd.Command = append([]string{`exec "$@" >/dev/null 2>&1`, "sh"}, x.Cmd...)
	cmd.OpenStdin, cmd.TTY = false, false
	_, err := in.Background(ctx, cmd)
	return err
}
