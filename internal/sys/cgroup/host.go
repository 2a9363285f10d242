// Package cgroup limits a sandbox's resources by control groups (cgroups(7), the kernel's
// cgroup-v2.rst, cgroup-v1). It decides where this process may make a group, makes, fills and
// removes it.
//
//	plan, refused := cgroup.ThisHost().Plan([]string{cgroup.Memory})
//	group, err := plan.Open(ctx, "wolffia-x", pid)
//	err = group.Fill(&cgroup.Limits{Memory: 1 << 30}, pid)
//	...
//	err = group.Remove(limit)
//
// ThisHost collects the facts about a host; Plan decides without I/O.
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
	// Freezer stops processes. In version 2 each group can.
	Freezer = "freezer"
)

// mount is where every host mounts its control groups.
const mount = "/sys/fs/cgroup"

// A Host has the facts about a host that decide where a process may make a control group.
type Host struct {
	version int     // 2, 1 (also where both are mounted), or 0 if none is
	own     []level // version 2: the process's group and those above it that it sees
	// version 1: the process's group by controller, if it may make groups in there
	v1 map[string]string

	systemd bool // systemd is the host's init, and manages its groups
	// of the systemd manager of root or of the user, to make a group; "" if none listens
	socket  string
	managed []string // the controllers of that manager
	root    bool
}

// A level is a group of version 2.
type level struct {
	path string // below the mount
	// the process may make groups in it, and move processes into and between them
	writable  bool
	top       bool     // it is the root of the hierarchy, which may have processes beside groups
	occupied  bool     // it has processes, so that groups in it get no further controllers
	delegated bool     // systemd has delegated it (Delegate=)
	has       []string // its controllers
	gives     []string // the controllers of groups in it
}

// ThisHost returns the facts about this host for this process.
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
			path:      path,
			writable:  writable(dir) && writable(dir+"/cgroup.procs") && writable(dir+"/cgroup.subtree_control"),
			top:       !exists(dir + "/cgroup.type"),
			occupied:  read(dir+"/cgroup.procs") != "",
			delegated: delegated(dir),
			has:       strings.Fields(read(dir + "/cgroup.controllers")),
			gives:     strings.Fields(read(dir + "/cgroup.subtree_control")),
		})
	}
	if h.systemd = exists("/run/systemd/system"); !h.systemd { // sd_booted(3)
		return
	}
	runs, managed := []string{"/run"}, "/"
	if !h.root {
		uid := strconv.Itoa(os.Geteuid())
		runs = []string{"/run/user/" + uid}
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" { // after su(1) it is another user's
			runs = []string{dir, runs[0]}
		}
		managed = "/user.slice/user-" + uid + ".slice/user@" + uid + ".service"
	}
	managed = filepath.Join(mount, managed)
	if !exists(managed) { // a manager leaves its socket when it ends
		return
	}
	for _, run := range runs {
		if socket := run + "/systemd/private"; writable(socket) {
			h.socket = socket
			h.managed = strings.Fields(read(managed + "/cgroup.controllers"))
			return
		}
	}
}

func (h *Host) lookV1(self string) {
	h.v1 = map[string]string{}
	for _, c := range []string{CPU, Memory, PIDs, Freezer} {
		path := pathOf(self, c)
		if path == "" {
			continue
		}
		h.version = 1
		dir := filepath.Join(mount, c, path)
		if !exists(dir) { // a container sees its own group as the root
			dir = filepath.Join(mount, c)
		}
		if writable(dir) {
			h.v1[c] = dir
		}
	}
}

// pathOf returns the group in text, a /proc/PID/cgroup: that of a controller of version 1, or for
// "" that of version 2; "" if it is not mounted.
func pathOf(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return ""
}

// above returns the parent of the group path, "" for the root.
func above(path string) string {
	if path == "/" || path == "" {
		return ""
	}
	return filepath.Dir(path)
}

// delegated reports whether systemd has marked a group as delegated, as it does since version 252.
func delegated(dir string) bool {
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

// read returns the content of a small file of the kernel, "" on an error.
func read(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
