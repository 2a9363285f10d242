package host

import (
	"context"
	"os"

	"wolffia/image/maker"
	"wolffia/internal/sys/userns"
	"wolffia/local"
	"wolffia/runtime"
)

// Make has wolffia-oci do what a request says. several says that files have several owners, for
// which the user needs subordinate ids.
func (h *Host) Make(ctx context.Context, rt *local.Runtime, several bool, req *maker.Request) (*maker.Result, error) {
	program, err := Program(rt, maker.Program)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	f, err := os.Open(program.ExecPath())
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the program %s: %w", maker.Program, err)
	}
	defer f.Close()
	var ids *userns.IDs
	if several && os.Geteuid() != 0 {
		of, err := userns.Of(os.Geteuid(), os.Getegid())
		if err == nil {
			err = of.Check()
		}
		if err != nil {
			return nil, runtime.WithClass(runtime.ErrUnsupported, err)
		}
		ids = &of
	}
	req.StateDir = rt.StateDir()
	return maker.Run(ctx, f, ids, req)
}
