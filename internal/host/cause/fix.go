package cause

import (
	"slices"
	"strings"

	"wolffia/internal/shellword"
)

// Sudo returns the commands, one on each line, with sudo if the user is not root.
func (h *Host) Sudo(commands ...string) string {
	commands = slices.Clone(commands)
	if !h.Root {
		for i, c := range commands {
			commands[i] = "sudo " + c
		}
	}
	return strings.Join(commands, "\n")
}

// Put returns a command that writes text, which has no quotes, to a file.
func (h *Host) Put(text, file string) string { return h.echo(text, "tee", ">", file) }

// Add returns a command that appends text, which has no quotes, to a file.
func (h *Host) Add(text, file string) string { return h.echo(text, "tee -a", ">>", file) }

func (h *Host) echo(text, tee, redirect, file string) string {
	if h.Root {
		return "echo '" + text + "' " + redirect + " " + file
	}
	return "echo '" + text + "' | sudo " + tee + " " + file
}

// Install returns the command that installs a package. others are its names in other
// families: "suse=name".
func (h *Host) Install(name string, others ...string) string {
	for _, o := range others {
		if f, n, _ := strings.Cut(o, "="); f == h.Family {
			name = n
		}
	}
	if command, known := map[string]string{
		"debian": "apt-get install -y ",
		"fedora": "dnf install -y ",
		"arch":   "pacman -S --noconfirm ",
		"alpine": "apk add ",
		"suse":   "zypper install -y ",
	}[h.Family]; known {
		return h.Sudo(command + name)
	}
	return "# install the package " + name
}

// Restart says how to start this container with what a sandbox needs: user namespaces and mounts in
// them, an unmasked /proc, /dev/fuse. That cannot be done from inside.
func (h *Host) Restart() string {
	switch h.Container {
	case "podman":
		return "# podman run --security-opt seccomp=unconfined --security-opt unmask=ALL" +
			" --security-opt label=disable --device /dev/fuse ..."
	case "kubernetes":
		return "# in the pod: securityContext: {seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}," +
			" procMount: Unmasked}, hostUsers: false, and a device plugin for /dev/fuse"
	case "lxc":
		return "# on the host: lxc config set NAME security.nesting true && lxc restart NAME"
	case "proxmox":
		return "# on the host: pct set ID --features nesting=1,keyctl=1 && pct reboot ID"
	case "crostini":
		return "# in crosh: vsh termina, and there: lxc config set penguin security.nesting true && lxc restart penguin"
	}
	return "# docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined" +
		" --security-opt systempaths=unconfined --device /dev/fuse ..."
}

// Name returns the user's name for a command.
func (h *Host) Name() string {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
	}
	if h.User == "" || strings.ContainsFunc(h.User, odd) {
		return "$USER"
	}
	return h.User
}

// sysctl returns the commands that set a kernel setting now and at every boot.
func (h *Host) sysctl(name, value string) string {
	if h.Container != "" {
		return "# on the host of this container, as root: sysctl -w " + name + "=" + value
	}
	return h.Sudo("sysctl -w "+name+"="+value) + "\n" + h.Put(name+" = "+value, "/etc/sysctl.d/90-wolffia.conf")
}

// apparmor returns the commands that give this program, and its children, a profile that
// allows user namespaces and restricts nothing. The package's profile is for /usr/bin/wolffia.
func (h *Host) apparmor() string {
	name := "wolffia"
	if h.Program != "/usr/bin/wolffia" {
		name += "-local"
	}
	file := "/etc/apparmor.d/" + name
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	all := ""
	if h.Armor != "" {
		all = "\n# or, for all programs: " + h.Sudo("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
	}
	return h.Sudo("tee "+file+" >/dev/null <<'EOF'") + `
abi <abi/4.0>,
include <tunables/global>

profile ` + name + ` "` + quote.Replace(h.Program) + `" flags=(unconfined) {
  userns,
  include if exists <local/` + name + `>
}
EOF
` + h.Sudo("apparmor_parser -r "+file) + all
}

// withoutProfiles returns the commands that disable the profiles which claim bwrap, as aa-disable(8)
// does.
func (h *Host) withoutProfiles() string {
	var commands []string
	for _, p := range h.Profiles {
		file := shellword.Quote(p.File)
		commands = append(commands, "ln -sf "+file+" /etc/apparmor.d/disable/", "apparmor_parser -R "+file)
	}
	return h.Sudo(commands...) + "\n" + h.apparmor()
}

// plainBwrap returns the command that takes away the set-user-ID bit.
func (f *Facts) plainBwrap() string { return f.Sudo("chmod u-s " + shellword.Quote(f.Bwrap.Path)) }
