package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// wanted are the controllers that limits need.
func wanted() []string { return []string{"cpu", "memory", "pids"} }

// A group is a control group of version 2 in which this user may make groups
// and move processes. The zero group is none.
type group struct {
	path        string // below the mount
	controllers []string
}

// cgroupFacts are what matters for control groups.
type cgroupFacts struct {
	version int      // 2, 1 (also hybrid), or 0 if none is mounted
	own     group    // version 2: the highest that this process is in
	manager group    // version 2: that of the user's systemd, if own is none
	v1      []string // version 1: the controllers that this user may use
}

const cgroupMount = "/sys/fs/cgroup"

func probeCgroups(_ context.Context, h *host) Result {
	var f cgroupFacts
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &fs); err != nil {
		return decideCgroups(f, h)
	}
	own := readFile("/proc/self/cgroup")
	switch fs.Type {
	case unix.CGROUP2_SUPER_MAGIC:
		f.version = 2
		for path := groupOf(own, ""); path != ""; path = parent(path) {
			if delegated(path) {
				f.own = group{path, controllers(path)}
			}
		}
		uid := strconv.Itoa(os.Geteuid())
		path := "/user.slice/user-" + uid + ".slice/user@" + uid + ".service"
		if f.own.path == "" && delegated(path) {
			f.manager = group{path, controllers(path)}
		}
	case unix.TMPFS_MAGIC:
		for _, c := range wanted() {
			if path := groupOf(own, c); path != "" {
				f.version = 1
				if writable(filepath.Join(cgroupMount, c, path)) {
					f.v1 = append(f.v1, c)
				}
			}
		}
	}
	return decideCgroups(f, h)
}

// groupOf returns the group of a process by its /proc/self/cgroup: that of a
// controller of version 1, or for "" that of version 2.
func groupOf(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return ""
}

// parent returns the group above path, "" above the root.
func parent(path string) string {
	if path == "/" || path == "" {
		return ""
	}
	return filepath.Dir(path)
}

// delegated reports whether this user may make groups in a group and move
// processes between them; cgroups(7), "Cgroups delegation".
func delegated(path string) bool {
	dir := filepath.Join(cgroupMount, path)
	return writable(dir) && writable(dir+"/cgroup.procs") && writable(dir+"/cgroup.subtree_control")
}

func writable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

func controllers(path string) []string {
	return strings.Fields(readFile(filepath.Join(cgroupMount, path, "cgroup.controllers")))
}

// lacking returns what is wanted and not in have.
func lacking(have []string) []string {
	return slices.DeleteFunc(wanted(), func(c string) bool { return slices.Contains(have, c) })
}

// decideCgroups says what the facts mean.
func decideCgroups(f cgroupFacts, h *host) Result {
	g := f.own
	if g.path == "" {
		g = f.manager
	}
	var r Result
	missing := lacking(g.controllers)
	switch f.version {
	case 2:
		r.Found = "version 2"
		if g.path != "" {
			r.Found += fmt.Sprintf(", %s in %s", strings.Join(g.controllers, " "), g.path)
		}
	case 1:
		r.Found = "version 1"
		if len(f.v1) > 0 {
			r.Found += ", " + strings.Join(f.v1, " ")
		}
		missing = lacking(f.v1)
	}
	switch {
	case f.version == 0:
		r.Problem = "no control groups are mounted at " + cgroupMount
	case f.version == 1 && len(missing) > 0:
		r.Problem = "this user may not use: " + strings.Join(missing, ", ")
		r.Fix = "# boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, for version 2"
	case f.version == 1:
		r.OK = true
	case len(missing) > 0 && h.container != "":
		r.Problem = "this container may not make control groups"
		r.Fix = "# set the limits on the container itself, or start it with --privileged --cgroupns=private"
	case g.path == "":
		r.Problem = "no control group is delegated to this user"
		r.Fix = h.delegate()
	case len(missing) > 0:
		r.Problem = "not delegated: " + strings.Join(missing, ", ")
		r.Fix = h.delegate()
	case f.own.path == "":
		r.Problem = "this process is not in the group that systemd delegates to its user"
		r.Fix = "systemd-run --user --scope -p Delegate=yes -- wolffia ..."
	default:
		r.OK = true
	}
	return r
}

// delegate returns the commands that make systemd delegate the controllers to
// the users.
func (h *host) delegate() string {
	const dir = "/etc/systemd/system/user@.service.d"
	return h.sudo("mkdir -p "+dir) + "\n" +
		h.put("[Service]\nDelegate=cpu cpuset io memory pids", dir+"/delegate.conf") + "\n" +
		h.sudo("systemctl daemon-reload") + "\n# then log in again"
}
