// Package cgroup limits what a sandbox uses of the machine by control groups
// (cgroups(7), the kernel's cgroup-v2.rst and cgroup-v1). All that is known of
// them is here: where this process may make one, how it is made, filled, asked
// and removed.
//
//	plan, refused := cgroup.ThisHost().Plan([]string{cgroup.Memory})
//	group, err := plan.Open(ctx, "wolffia-x", pid, 0)
//	err = group.Fill(&cgroup.Limits{Memory: 1 << 30}, pid, 0)
//	...
//	err = group.Remove(limit)
//
// What a host's facts mean is decided by a function without I/O.
package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The controllers that limits need.
const (
	CPU    = "cpu"
	Memory = "memory"
	PIDs   = "pids"
)

// mount is where control groups are, on every host that has them.
const mount = "/sys/fs/cgroup"

// A Host is what matters of a host for the control groups of a process.
type Host struct {
	// version is 2, 1 (also where both are), or 0 if there are none.
	version int
	// own is, of version 2, the process's group and those above it, up to the
	// highest that it sees.
	own []level
	// v1 is, of version 1, the directory of the process's group by controller, if
	// it may make groups in there.
	v1 map[string]string
	// systemd says that systemd is the host's init, and so minds its own groups;
	// socket is where the manager to ask for one listens: root's, or that of the
	// user; empty if none does. managed are the controllers that it has.
	systemd bool
	socket  string
	managed []string
	root    bool
}

// A level is a group of version 2.
type level struct {
	path     string   // below the mount
	writable bool     // one may make groups in it, and move processes there and between them
	top      bool     // it is the host's root, to which other rules apply
	occupied bool     // there are processes in it, so that no group in it can have controllers
	own      bool     // systemd has given it away (Delegate=)
	has      []string // the controllers that it has,
	gives    []string // and those that groups in it have
}

// ThisHost looks at the host, for the process that calls it.
func ThisHost() *Host {
	h := &Host{root: os.Geteuid() == 0}
	var fs unix.Statfs_t
	if unix.Statfs(mount, &fs) != nil {
		return h
	}
	self := read("/proc/self/cgroup")
	switch fs.Type {
	case unix.CGROUP2_SUPER_MAGIC:
		h.version = 2
		h.lookV2(self)
	case unix.TMPFS_MAGIC:
		h.lookV1(self)
	}
	return h
}

func (h *Host) lookV2(self string) {
	for path := pathOf(self, ""); path != ""; path = above(path) {
		dir := filepath.Join(mount, path)
		h.own = append(h.own, level{
			path:     path,
			writable: writable(dir) && writable(dir+"/cgroup.procs") && writable(dir+"/cgroup.subtree_control"),
			top:      !exists(dir + "/cgroup.type"),
			occupied: read(dir+"/cgroup.procs") != "",
			own:      givenAway(dir),
			has:      strings.Fields(read(dir + "/cgroup.controllers")),
			gives:    strings.Fields(read(dir + "/cgroup.subtree_control")),
		})
	}
	if h.systemd = exists("/run/systemd/system"); !h.systemd { // sd_booted(3)
		return
	}
	run, managed := "/run", "/"
	if !h.root {
		uid := strconv.Itoa(os.Geteuid())
		if run = os.Getenv("XDG_RUNTIME_DIR"); run == "" {
			run = "/run/user/" + uid
		}
		managed = "/user.slice/user-" + uid + ".slice/user@" + uid + ".service"
	}
	managed = filepath.Join(mount, managed)
	if socket := run + "/systemd/private"; writable(socket) && exists(managed) { // a manager that has ended leaves it
		h.socket = socket
		h.managed = strings.Fields(read(managed + "/cgroup.controllers"))
	}
}

func (h *Host) lookV1(self string) {
	h.v1 = map[string]string{}
	for _, c := range []string{CPU, Memory, PIDs} {
		path := pathOf(self, c)
		if path == "" {
			continue
		}
		h.version = 1
		dir := filepath.Join(mount, c, path)
		if !exists(dir) { // a container sees its own group only, in place of the root
			dir = filepath.Join(mount, c)
		}
		if writable(dir) {
			h.v1[c] = dir
		}
	}
}

// pathOf returns the group of a process by its /proc/PID/cgroup: that of a
// controller of version 1, or for "" that of version 2.
func pathOf(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return ""
}

// above returns the group above path, "" above the root.
func above(path string) string {
	if path == "/" || path == "" {
		return ""
	}
	return filepath.Dir(path)
}

// givenAway reports whether systemd has marked a group as somebody else's, as it
// does since version 252 for all to see.
func givenAway(dir string) bool {
	value := make([]byte, 1)
	n, err := unix.Getxattr(dir, "user.delegate", value)
	return err == nil && n == 1 && value[0] == '1'
}

func writable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// read returns the content of a small file of the kernel's, empty if there is none.
func read(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
