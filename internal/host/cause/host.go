package cause

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A Host has what the table reads of a host. The zero value stands for a Linux whose files cannot
// be read.
type Host struct {
	Family    string // of the distribution: "debian", "fedora", "arch", "alpine", "suse" or ""
	Container string // "docker", "podman", "kubernetes", "lxc", "proxmox", "crostini"; "" means none
	Kernel    string // "wsl1", "wsl2", "gvisor"; "" means Linux
	Release   string // of the kernel
	Filtered  bool   // this process is under a seccomp filter
	Root      bool
	Program   string // the path of this program
	User      string
	UserNS    bool   // the kernel has user namespaces
	Max       string // user.max_user_namespaces, or ""
	Clone     string // kernel.unprivileged_userns_clone, or ""; only some distributions have it
	Armor     string // kernel.apparmor_restrict_unprivileged_userns, or ""
	SELinux   bool   // SELinux enforces its policy
	Label     string // of this process: its context for SELinux, its profile for AppArmor; or ""
	FuseKnown bool   // the kernel has the file system
	Profiles  []Profile
	Mounts    MountTable
}

// The kernels that are not Linux, or not that of a machine.
const (
	wsl1   = "wsl1"
	wsl2   = "wsl2"
	gvisor = "gvisor"
)

// A Profile is an AppArmor profile that is attached to a program called bwrap.
type Profile struct{ Name, File string }

// This returns the host that this process runs on. Each call reads it again.
func This() *Host {
	h := Read(os.DirFS("/"), os.Getenv("KUBERNETES_SERVICE_HOST") != "")
	h.Root, h.User, h.Program = os.Geteuid() == 0, os.Getenv("USER"), "/usr/local/bin/wolffia"
	if program, err := os.Executable(); err == nil {
		h.Program = program
	}
	return h
}

// Read returns the host with these files, but for what is this process's: Root, Program and User.
// kubernetes tells that this process was started in a pod.
func Read(files fs.FS, kubernetes bool) *Host {
	text := func(name string) string {
		b, _ := fs.ReadFile(files, name)
		return strings.Trim(string(b), " \n\x00")
	}
	has := func(name string) bool { _, err := fs.Stat(files, name); return err == nil }
	h := &Host{
		Release:  text("proc/sys/kernel/osrelease"),
		Kernel:   kernel(text("proc/version")),
		Family:   family(text("etc/os-release")),
		Filtered: strings.Contains(text("proc/self/status"), "\nSeccomp:\t2"),
		UserNS:   has("proc/self/ns/user"),
		Max:      text("proc/sys/user/max_user_namespaces"),
		Clone:    text("proc/sys/kernel/unprivileged_userns_clone"),
		Armor:    text("proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		SELinux:  text("sys/fs/selinux/enforce") == "1",
		Label:    text("proc/self/attr/current"),
		Mounts:   parseMounts(text("proc/self/mountinfo")),
	}
	for line := range strings.Lines(text("proc/filesystems")) {
		fields := strings.Fields(line)
		h.FuseKnown = h.FuseKnown || len(fields) > 0 && fields[len(fields)-1] == "fuse"
	}
	if h.Armor == "1" {
		h.Profiles = profiles(files)
	}
	// systemd(1) writes what PID 1 was told by its variable container, which only root may read.
	kind := text("run/systemd/container")
	for v := range strings.SplitSeq(text("proc/1/environ"), "\x00") {
		if value, is := strings.CutPrefix(v, "container="); is {
			kind = value
		}
	}
	cgroup := text("proc/1/cgroup")
	switch {
	case kubernetes || strings.Contains(cgroup, "kubepods") || has("run/secrets/kubernetes.io"):
		h.Container = "kubernetes"
	case has("run/.containerenv") || strings.Contains(cgroup, "libpod") || kind == "podman":
		h.Container = "podman"
	case has(".dockerenv") || strings.Contains(cgroup, "/docker") || kind == "docker":
		h.Container = "docker"
	case has("opt/google/cros-containers"):
		h.Container = "crostini"
	case kind == "lxc" || has("dev/.lxc") || strings.Contains(cgroup, "/lxc"):
		h.Container = "lxc"
		if strings.Contains(h.Release+text("proc/version"), "-pve") {
			h.Container = "proxmox"
		}
	}
	return h
}

// kernel returns the kind of kernel that has this /proc/version.
func kernel(version string) string {
	lower := strings.ToLower(version)
	switch {
	// gVisor has one date for all of its versions; pkg/sentry/fsimpl/proc/tasks_files.go there.
	case strings.Contains(lower, "gvisor"), strings.Contains(version, "SMP Sun Jan 10 15:06:54 PST 2016"):
		return gvisor
	case strings.Contains(lower, "wsl2"), strings.Contains(lower, "microsoft-standard"):
		return wsl2
	case strings.Contains(lower, "microsoft"):
		return wsl1
	}
	return ""
}

// family returns the family of a distribution by its package manager; os-release(5).
func family(release string) string {
	var names []string
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"'`); key {
		case "ID":
			names = append([]string{value}, names...)
		case "ID_LIKE":
			names = append(names, strings.Fields(value)...)
		}
	}
	of := map[string]string{
		"debian": "debian", "ubuntu": "debian", "fedora": "fedora", "rhel": "fedora", "centos": "fedora", "amzn": "fedora",
		"arch": "arch", "alpine": "alpine", "suse": "suse", "opensuse": "suse", "sles": "suse",
	}
	for _, name := range names {
		if f := of[name]; f != "" {
			return f
		}
	}
	return ""
}

// attached is the beginning of an AppArmor profile for a program called bwrap; apparmor.d(5).
var attached = regexp.MustCompile(`(?m)^[ \t]*(?:profile[ \t]+(?:([^\s"/@]\S*)[ \t]+)?)?` +
	`("?[/@][^\s"]*\bbwrap"?)[ \t]+[^\n]*\{`)

// profiles returns the profiles for a program called bwrap that are not disabled.
func profiles(files fs.FS) (all []Profile) {
	const dir = "etc/apparmor.d"
	names, _ := fs.ReadDir(files, dir)
	for _, e := range names {
		if _, err := fs.Stat(files, dir+"/disable/"+e.Name()); err == nil || e.IsDir() {
			continue
		}
		b, _ := fs.ReadFile(files, dir+"/"+e.Name())
		for _, m := range attached.FindAllStringSubmatch(string(b), -1) {
			name := m[1]
			if name == "" {
				name = strings.Trim(m[2], `"`)
			}
			all = append(all, Profile{name, "/" + dir + "/" + e.Name()})
		}
	}
	return all
}

// profiles lists the profiles.
func (h *Host) profiles() string {
	var names []string
	for _, p := range h.Profiles {
		names = append(names, p.Name+" in "+p.File)
	}
	return strings.Join(names, ", ")
}

// lxc reports whether this is a container of LXC.
func (h *Host) lxc() bool {
	return slices.Contains([]string{"lxc", "proxmox", "crostini"}, h.Container)
}

// confined reports whether SELinux has given this process the type.
func (h *Host) confined(kind string) bool {
	return h.SELinux && strings.Contains(h.Label+":", ":"+kind+":")
}

// profile returns the name of the AppArmor profile that confines this process; empty: none does.
func (h *Host) profile() string {
	name, enforced := strings.CutSuffix(h.Label, " (enforce)")
	if !enforced {
		return ""
	}
	return name
}

// container is what this container is called in a sentence.
func (h *Host) container() string {
	kind := map[string]string{
		"docker": "Docker ", "podman": "Podman ", "kubernetes": "Kubernetes ", "lxc": "LXC ", "proxmox": "Proxmox ",
		"crostini": "Crostini ",
	}[h.Container]
	return "this " + kind + "container"
}

// covered lists what is mounted below /proc, in parentheses; empty if nothing is.
func (h *Host) covered() string {
	var names []string
	for _, m := range h.Mounts.belowProc() {
		names = append(names, m.point)
	}
	if len(names) > 3 {
		names = append(names[:3], "...")
	}
	if names == nil {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// String describes the host in a few words, such as "WSL 2, Linux 6.6".
func (h *Host) String() string {
	what := map[string]string{wsl1: "WSL 1, ", wsl2: "WSL 2, ", gvisor: "gVisor, "}[h.Kernel]
	if h.Container != "" {
		what = strings.TrimPrefix(h.container(), "this ") + ", " + what
	}
	return what + "Linux " + h.Release
}
