package sandboxflags

import (
	"slices"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// The flags of questions.
const (
	flagAsk      = "ask"
	flagAskLimit = "ask-limit"
	askAll       = "all" // what the sandbox can be asked about
)

// applyAsk sets what a configuration asks instead of refusing. It is called when the network is set: unless a flag sets that,
// to ask about it needs a filtered one.
func (f *Sandbox) applyAsk(c *runtime.SandboxConfig) error {
	asked := f.List(flagAsk)
	all := slices.Contains(asked, askAll)
	if all {
		asked = runtime.AskKinds()
		if c.Filter == runtime.FilterStatic || host.Lacks(f.Text("runtime"), launch.HostProcesses) {
			asked = []string{runtime.AskNetwork}
		}
	}
	if slices.Contains(asked, runtime.AskNetwork) && c.Network != runtime.NetworkFiltered {
		switch {
		case !f.flags.Changed(flagNetwork):
			c.Network, c.Egress = runtime.NetworkFiltered, &network.Policy{Upstream: f.Text(flagUpstream)}
		case all:
			asked = slices.DeleteFunc(asked, func(kind string) bool { return kind == runtime.AskNetwork })
		default:
			return runtime.Errorf(runtime.ErrInvalid,
				"--%s network and --network %s exclude each other: only --network filtered can be asked about; leave one of them out", flagAsk, c.Network)
		}
	}
	c.Ask = asked
	if text := f.Text(flagAskLimit); text != "" {
		var err error
		c.AskLimit, err = ParseDuration(flagAskLimit, text)
		return err
	}
	return nil
}
