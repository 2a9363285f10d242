package local

import (
	"slices"
	"strings"
	"testing"

	"wolffia/internal/sys/cgroup"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Every host there can be: by which controllers it has, for each set of limits
// and both kinds of backends.
func TestDecideLimits(t *testing.T) {
	controllers := []string{cgroup.CPU, cgroup.Memory, cgroup.PIDs}
	for host := range 8 {
		var has []string
		for i, c := range controllers {
			if host&(1<<i) != 0 {
				has = append(has, c)
			}
		}
		asked := 0
		plan := func(want []string) (*cgroup.Plan, *cgroup.Refusal) {
			if asked++; asked > 4 {
				t.Fatal("it asks for ever")
			}
			lacking := slices.DeleteFunc(slices.Clone(want), func(c string) bool { return slices.Contains(has, c) })
			if len(lacking) > 0 {
				return nil, &cgroup.Refusal{Lacking: lacking, Problem: "it is so"}
			}
			return new(cgroup.Plan), nil
		}
		for limits := 1; limits < 8; limits++ {
			for _, ownKernel := range []bool{false, true} {
				want := runtime.Resources{}
				var group, refused []string
				for i, set := range []func(){func() { want.CPUs = 1.5 }, func() { want.Memory = 64 << 20 }, func() { want.PIDs = 20 }} {
					if limits&(1<<i) == 0 {
						continue
					}
					set()
					switch c := controllers[i]; {
					case c == cgroup.PIDs && ownKernel:
					case slices.Contains(has, c):
						group = append(group, c)
					default:
						refused = append(refused, c)
					}
				}
				asked = 0
				got, err := decideLimits(&want, ownKernel, plan)
				if (err != nil) != (len(refused) > 0) {
					t.Errorf("host %v, limits %+v, own kernel %v: %+v, %v", has, want, ownKernel, got, err)
				}
				if err != nil && (runtime.Class(err) != runtime.ErrUnsupported || !strings.Contains(err.Error(), "it is so")) {
					t.Error(err)
				}
				want.BestEffort, asked = true, 0
				if got, err = decideLimits(&want, ownKernel, plan); err != nil {
					t.Error(err)
					continue
				}
				checkLimits(t, &want, ownKernel, got, group)
			}
		}
	}
	if l, err := planLimits(&runtime.SandboxConfig{Resources: runtime.Resources{Disk: 1, BestEffort: true}}, false); l != nil || err != nil {
		t.Errorf("no limits: %+v, %v", l, err)
	}
}

// checkLimits checks that each limit is kept in one way, which is told.
func checkLimits(t *testing.T, want *runtime.Resources, ownKernel bool, got *limiting, group []string) {
	t.Helper()
	by := func(asked bool, controller string, otherwise runtime.Enforcement) runtime.Enforcement {
		switch {
		case !asked:
			return ""
		case slices.Contains(group, controller):
			return runtime.ByCgroup
		}
		return otherwise
	}
	memory := runtime.ByRlimit
	if ownKernel {
		memory = runtime.ByNothing
	}
	state := runtime.LimitsState{
		Memory: by(want.Memory > 0, cgroup.Memory, memory),
		CPUs:   by(want.CPUs > 0, cgroup.CPU, runtime.ByNothing),
		PIDs:   by(want.PIDs > 0, cgroup.PIDs, runtime.ByRlimit),
	}
	var limits cgroup.Limits
	var rlimits launch.Rlimits
	if state.Memory == runtime.ByCgroup {
		limits.Memory = want.Memory
	} else if state.Memory == runtime.ByRlimit {
		rlimits.Data = want.Memory
	}
	if state.CPUs == runtime.ByCgroup {
		limits.CPUs = want.CPUs
	}
	if state.PIDs == runtime.ByCgroup {
		limits.PIDs = want.PIDs + launch.InitThreads
	} else {
		rlimits.PIDs = want.PIDs
	}
	if got.LimitsState != state || got.limits != limits || got.rlimits != rlimits || (got.plan != nil) != (len(group) > 0) {
		t.Errorf("limits %+v, own kernel %v, groups %v: %+v, want %+v, %+v, %+v", *want, ownKernel, group, got, state, limits, rlimits)
	}
}
