package probe

import (
	"context"

	"wolffia/internal/sys/cgroup"
)

func probeCgroups(_ context.Context, h *host) Result {
	plan, refused := cgroup.ThisHost().Plan([]string{cgroup.CPU, cgroup.Memory, cgroup.PIDs})
	if refused != nil {
		return decideCgroups(refused, h)
	}
	return Result{OK: true, Found: plan.String()}
}

// decideCgroups returns the result for a host that refuses control groups.
func decideCgroups(r *cgroup.Refusal, h *host) Result {
	return Result{Problem: r.Problem, Code: cgroupCodes[r.Kind], Fix: cgroupFix(h, r.Kind)}
}

var cgroupCodes = map[cgroup.Kind]string{
	cgroup.NoGroups: "cgroups-none", cgroup.OldVersion: "cgroups-v1", cgroup.Occupied: "cgroups-occupied",
	cgroup.NoManager: "cgroups-manager", cgroup.NotGiven: "cgroups-controllers",
}

// cgroupFix returns what helps against a refusal.
func cgroupFix(h *host, kind cgroup.Kind) string {
	switch {
	case kind == cgroup.NoGroups:
		return ""
	case kind == cgroup.OldVersion:
		return "# boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, for version 2; or run wolffia as root"
	case h.Container != "" && kind == cgroup.Occupied:
		// As the entry points of containers that run containers.
		return "# in a container that may: docker run --privileged --cgroupns=private ..., and in it, at first:\n" +
			"# mkdir -p /sys/fs/cgroup/init && xargs -rn1 </sys/fs/cgroup/cgroup.procs >/sys/fs/cgroup/init/cgroup.procs\n" +
			"# or set the limits on the container itself"
	case h.Container != "":
		return "# set the limits on the container itself, or start it with --privileged --cgroupns=private"
	case kind == cgroup.NoManager:
		return "# log in, so that systemd starts a manager for the user, or have it always:\n" + h.Sudo("loginctl enable-linger "+h.Name())
	case kind == cgroup.Occupied:
		return "# run wolffia in a group of its own below that one, such as by DelegateSubgroup= of a service (systemd 254)"
	}
	// systemd delegates the controllers to the users
	const dir = "/etc/systemd/system/user@.service.d"
	return h.Sudo("mkdir -p "+dir) + "\n" +
		h.Put("[Service]\nDelegate=cpu cpuset io memory pids", dir+"/delegate.conf") + "\n" +
		h.Sudo("systemctl daemon-reload") + "\n# then log in again"
}
