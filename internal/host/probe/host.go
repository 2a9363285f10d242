package probe

import (
	"os"
	"strings"
)

// A host has the facts that fixes depend on.
type host struct {
	family    string // of the distribution: "debian", "fedora", "arch", "alpine", "suse" or ""
	container string // "docker", "podman", "kubernetes", "lxc"; "" means none
	filtered  bool   // this process is under a seccomp filter
	root      bool
	program   string // the path of this program
	user      string
}

// thisHost returns the facts about the host that this process runs on.
func thisHost() *host {
	program, err := os.Executable()
	if err != nil {
		program = "/usr/local/bin/wolffia"
	}
	status := readFile("/proc/self/status")
	return &host{
		family:    family(readFile("/etc/os-release")),
		container: container(exists("/.dockerenv"), exists("/run/.containerenv"), readFile("/proc/1/cgroup"), os.Getenv("KUBERNETES_SERVICE_HOST") != ""),
		filtered:  strings.Contains(status, "\nSeccomp:\t2"),
		root:      os.Geteuid() == 0,
		program:   program,
		user:      os.Getenv("USER"),
	}
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
	for _, name := range names {
		switch name {
		case "debian", "ubuntu":
			return "debian"
		case "fedora", "rhel", "centos", "amzn":
			return "fedora"
		case "arch", "alpine":
			return name
		case "suse", "opensuse", "sles":
			return "suse"
		}
	}
	return ""
}

// container returns the kind of container that has these facts.
func container(dockerenv, containerenv bool, cgroup string, kubernetes bool) string {
	switch {
	case kubernetes || strings.Contains(cgroup, "kubepods"):
		return "kubernetes"
	case containerenv || strings.Contains(cgroup, "libpod"):
		return "podman"
	case dockerenv || strings.Contains(cgroup, "/docker"):
		return "docker"
	case strings.Contains(cgroup, "/lxc"):
		return "lxc"
	}
	return ""
}

// sudo returns the commands, with sudo if the user is not root.
func (h *host) sudo(commands ...string) string {
	if !h.root {
		for i, c := range commands {
			commands[i] = "sudo " + c
		}
	}
	return strings.Join(commands, "\n")
}

// put returns a command that writes text, which has no quotes, to a file; add returns one
// that appends it.
func (h *host) put(text, file string) string { return h.echo(text, "tee", ">", file) }
func (h *host) add(text, file string) string { return h.echo(text, "tee -a", ">>", file) }

func (h *host) echo(text, tee, redirect, file string) string {
	if h.root {
		return "echo '" + text + "' " + redirect + " " + file
	}
	return "echo '" + text + "' | sudo " + tee + " " + file
}

// install returns the command that installs a package. others are its names in other
// families: "suse=name".
func (h *host) install(name string, others ...string) string {
	for _, o := range others {
		if f, n, _ := strings.Cut(o, "="); f == h.family {
			name = n
		}
	}
	if command, known := map[string]string{
		"debian": "apt-get install -y ",
		"fedora": "dnf install -y ",
		"arch":   "pacman -S --noconfirm ",
		"alpine": "apk add ",
		"suse":   "zypper install -y ",
	}[h.family]; known {
		return h.sudo(command + name)
	}
	return "# install the package " + name
}

// restart returns the command that starts this container with what a sandbox needs: user
// namespaces and mounts in them, an unmasked /proc, /dev/fuse.
func (h *host) restart() string {
	switch h.container {
	case "podman":
		return "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL" +
			" --security-opt label=disable --device /dev/fuse ..."
	case "kubernetes":
		return "# in the pod: securityContext: {seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}," +
			" procMount: Unmasked}, hostUsers: false, and a device plugin for /dev/fuse"
	case "lxc":
		return "# on the host: lxc config set NAME security.nesting true && lxc restart NAME"
	}
	return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined" +
		" --security-opt systempaths=unconfined --device /dev/fuse ..."
}

// name returns the user's name for a command.
func (h *host) name() string {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
	}
	if h.user == "" || strings.ContainsFunc(h.user, odd) {
		return "$USER"
	}
	return h.user
}
