package shim

import (
	"wolffia/internal/inside"
	"wolffia/runtime"
)

// reach returns the network of the sandbox.
func (s *shim) reach() (inside.Network, error) {
	pid := initOf(s.inst.PID)
	if pid == 0 || s.boot.OwnKernel || s.boot.Engine != "" {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "runtime %s cannot filter its network", s.boot.Config.Runtime)
	}
	return inside.Direct(pid, nil)
}
