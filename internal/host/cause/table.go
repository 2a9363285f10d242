package cause

import (
	"slices"

	"wolffia/internal/shellword"
)

// table returns the causes. The first that fits counts: what explains most is first.
func table() []row {
	return slices.Concat(kernels(), limits(), containers(), policies(), covers(), programs(), devices(), directories())
}

// kernels are the causes of kernels that are not Linux, and of its configuration.
func kernels() []row {
	return []row{
		{
			"proc-missing",
			func(f *Facts) bool { return f.Mounts == nil && f.broken() && !f.is(NoBwrap, Fuse) },
			text("/proc is not mounted"),
			func(f *Facts) string { return f.Sudo("mount -t proc proc /proc") },
		},
		{
			"proc-subset",
			func(f *Facts) bool {
				return f.Mounts.proc().has("subset=pid") && f.is(ProcFiles, Proc, NoKernel, Namespaces)
			},
			text("/proc is mounted with subset=pid, as by ProcSubset=pid of a systemd unit: a sandbox needs all of it"),
			text("# in the unit: ProcSubset=all; or mount another one, as root: mount -t proc proc /proc"),
		},
		{
			"gvisor-host",
			func(f *Facts) bool { return f.Kernel == gvisor && f.broken() && !f.is(Fuse) },
			text("the kernel here is gVisor, which has its loopback up already and no cgroup namespaces: " +
				"bubblewrap cannot work in it, whatever the permissions"),
			text("# run wolffia outside; there --runtime gvisor gives each sandbox such a kernel"),
		},
		{
			"wsl1",
			func(f *Facts) bool { return f.Kernel == wsl1 && f.broken() },
			text("WSL 1 has no namespaces and no FUSE: WSL 2 has"),
			text("# in PowerShell, with the name that wsl -l prints: wsl --set-version NAME 2"),
		},
		withoutUserNS(func(f *Facts) bool { return !f.UserNS && f.is(Namespaces, NoKernel, Full, Mounts) }),
		{
			"seccomp-kernel",
			func(f *Facts) bool { return f.is(NoSeccomp) },
			text("the kernel cannot filter system calls"),
			text("# install a kernel with CONFIG_SECCOMP_FILTER=y"),
		},
	}
}

func withoutUserNS(when func(*Facts) bool) row {
	return row{
		"userns-kernel", when,
		text("the kernel is built without user namespaces"), text("# install a kernel with CONFIG_USER_NS=y"),
	}
}

// limits are the causes that are a setting of the kernel.
func limits() []row {
	return []row{
		{
			"userns-max-zero",
			func(f *Facts) bool { return f.Max == "0" && f.is(Namespaces, NoKernel, Full) },
			text("user.max_user_namespaces is 0"),
			func(f *Facts) string { return f.sysctl("user.max_user_namespaces", "15000") },
		},
		{
			"userns-clone",
			func(f *Facts) bool { return f.Clone == "0" && !f.Root && f.is(Namespaces, NoKernel) },
			text("kernel.unprivileged_userns_clone is 0: only root may make user namespaces"),
			func(f *Facts) string { return f.sysctl("kernel.unprivileged_userns_clone", "1") },
		},
		{
			"userns-full",
			func(f *Facts) bool { return f.is(Full) },
			text("all user namespaces are in use, or this process is in a sandbox that allows no more"),
			func(f *Facts) string { return f.sysctl("user.max_user_namespaces", "100000") },
		},
	}
}

// containers are the causes that the host is a container.
func containers() []row {
	lxcfs := func(f *Facts) bool { return slices.ContainsFunc(f.Mounts.belowProc(), mount.lxcfs) }
	return []row{
		{
			"lxc-nesting",
			func(f *Facts) bool { return f.lxc() && f.is(Namespaces, Mounts, Pivot, Loopback) && f.refused() },
			func(f *Facts) string { return f.container() + " does not allow nesting" },
			(*Facts).Restart,
		},
		{
			"lxc-proc",
			func(f *Facts) bool { return f.is(Proc) && (f.lxc() || lxcfs(f)) },
			func(f *Facts) string {
				return "lxcfs covers parts of /proc" + f.covered() + ", and " + f.container() + " has no second one: nesting is off"
			},
			(*Facts).Restart,
		},
		{
			"container-selinux",
			func(f *Facts) bool {
				return f.confined("container_t") &&
					(f.is(Mounts, Loopback, Pivot) && f.refused() || f.is(Proc) && f.says("permission denied"))
			},
			func(f *Facts) string { return "SELinux confines this container as container_t, which may not mount" },
			(*Facts).Restart,
		},
		{
			"container-apparmor",
			func(f *Facts) bool {
				return f.Container != "" && f.Armor == "1" && f.Label == "unconfined" && f.refused() &&
					(f.is(Mounts, Loopback) || f.is(Namespaces) && !f.Filtered)
			},
			text("AppArmor of the host of this container lets only programs with a profile use user namespaces"),
			text("# on the host, as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
		},
		{
			"container-seccomp",
			func(f *Facts) bool { return f.Container != "" && f.is(Namespaces) && f.refused() },
			func(f *Facts) string { return "the seccomp profile of " + f.container() + " forbids user namespaces" },
			(*Facts).Restart,
		},
		{
			"container-mounts",
			func(f *Facts) bool { return f.Container != "" && f.is(Mounts, Loopback, Pivot) && f.refused() },
			func(f *Facts) string {
				return "the security profile of " + f.container() + " forbids mounts in user namespaces"
			},
			(*Facts).Restart,
		},
		{
			"container-proc",
			func(f *Facts) bool { return f.Container != "" && f.is(Proc) },
			func(f *Facts) string {
				return "/proc of " + f.container() + " is masked" + f.covered() + ", so that a sandbox cannot have its own"
			},
			(*Facts).Restart,
		},
	}
}

// policies are the causes that a security module, or a filter, refuses.
func policies() []row {
	refused := func(f *Facts) bool { return f.is(Namespaces, Mounts, Loopback, Pivot) && f.refused() }
	armored := func(f *Facts) bool { return f.Armor == "1" && refused(f) }
	return []row{
		{
			"apparmor-profile",
			func(f *Facts) bool { return f.profile() != "" && refused(f) },
			func(f *Facts) string {
				return "AppArmor confines this process by its profile " + f.profile() + ", which refuses what a sandbox needs"
			},
			func(f *Facts) string {
				return f.apparmor() + "\n# if that is not enough, run wolffia from a program without this profile"
			},
		},
		{
			"apparmor-clash",
			func(f *Facts) bool { return armored(f) && f.byBwrap() && len(f.Profiles) > 1 },
			func(f *Facts) string {
				return "AppArmor uses no profile for bwrap, since several claim it: " + f.profiles()
			},
			(*Facts).withoutProfiles,
		},
		{
			"apparmor-bwrap",
			func(f *Facts) bool { return armored(f) && f.byBwrap() && len(f.Profiles) == 1 },
			func(f *Facts) string { return "an AppArmor profile of another package claims bwrap: " + f.profiles() },
			(*Facts).withoutProfiles,
		},
		{
			"apparmor-userns", armored,
			text("AppArmor lets only programs with a profile use user namespaces " +
				"(kernel.apparmor_restrict_unprivileged_userns is 1)"),
			(*Facts).apparmor,
		},
		{
			"selinux-user",
			func(f *Facts) bool {
				return f.SELinux && !f.confined("unconfined_t") && (refused(f) || f.is(Proc) && f.says("permission denied"))
			},
			func(f *Facts) string {
				return "SELinux confines this user, who is " + f.Label + ", and refuses what a sandbox needs"
			},
			func(f *Facts) string {
				return f.Sudo("dnf upgrade -y selinux-policy") + "\n# if that is not enough, as root, " +
					"and then log in again: semanage login -a -s unconfined_u " + f.Name()
			},
		},
		{
			"seccomp-filter",
			func(f *Facts) bool { return f.Filtered && f.is(Namespaces) && f.refused() },
			text("a seccomp filter on this process forbids user namespaces"),
			func(f *Facts) string { return "# run wolffia outside of this sandbox; in a container:\n" + f.Restart() },
		},
		{
			"proc-hidepid",
			func(f *Facts) bool { return f.Mounts.proc().hidepid() && f.is(Namespaces) && f.says("uid map") },
			text("/proc is mounted with hidepid, so that bubblewrap cannot set the ids of its process"),
			func(f *Facts) string { return f.Sudo("mount -o remount,hidepid=0 /proc") },
		},
		{
			"chroot",
			func(f *Facts) bool { return f.Mounts.chroot() && f.is(Namespaces, Pivot) && f.refused() },
			text("this is a chroot, in which the kernel makes no user namespaces"),
			text("# run wolffia outside of the chroot, or enter it as systemd-nspawn does, by pivot_root"),
		},
		{
			"userns-denied",
			func(f *Facts) bool { return f.is(Namespaces) && f.refused() },
			text("the kernel refuses user namespaces: this is a chroot, or a security module forbids them"),
			nil,
		},
	}
}

// covers are the causes that are mounts.
func covers() []row {
	return []row{
		{
			"proc-covered",
			func(f *Facts) bool { return f.is(Proc) },
			func(f *Facts) string {
				return "something is mounted over parts of /proc" + f.covered() + ", so that a sandbox cannot have its own"
			},
			func(f *Facts) string {
				var commands []string
				for _, m := range f.Mounts.belowProc() {
					commands = append(commands, "umount "+shellword.Quote(m.point))
				}
				if len(commands) == 0 {
					return "# findmnt -R /proc lists what is below; unmount it"
				}
				return f.Sudo(commands...)
			},
		},
		{
			"pivot-ramdisk",
			func(f *Facts) bool { return f.is(Pivot) && f.says("invalid argument") },
			text("/ is the kernel's first root (an initial ramdisk), which cannot be replaced"),
			text("# boot with a root of its own: switch_root to a tmpfs with the same files"),
		},
		{
			"loopback",
			func(f *Facts) bool { return f.is(Loopback) },
			text("the loopback of a new network namespace cannot be set up"),
			nil,
		},
		{
			"mounts-denied",
			func(f *Facts) bool { return f.is(Mounts, Pivot) && f.refused() },
			text("mounts in a user namespace are refused, as by a security module"),
			nil,
		},
	}
}

// programs are the causes of the host's bubblewrap.
func programs() []row {
	install := func(f *Facts) string { return f.Install("bubblewrap") }
	return []row{
		{
			"bwrap-missing",
			func(f *Facts) bool { return f.is(NoBwrap) },
			text("bubblewrap is not installed, or not in PATH"), install,
		},
		{
			"bwrap-setuid-refused",
			func(f *Facts) bool { return f.is(SetuidOnly) },
			text("this bubblewrap is setuid root and refuses to run so; wolffia does not need it"),
			(*Facts).plainBwrap,
		},
		{
			"bwrap-old",
			func(f *Facts) bool {
				return f.is(Option) || f.Symptom == "" && f.Bwrap.Version != nil && TooOld(f.Bwrap.Version)
			},
			text("this bubblewrap is too old: wolffia needs 0.8.0"),
			func(f *Facts) string {
				return install(f) + "\n# or build it: https://github.com/containers/bubblewrap/releases"
			},
		},
		{
			"bwrap-setuid-cve",
			func(f *Facts) bool { return f.Bwrap.Setuid && f.Bwrap.vulnerable() },
			text("this bubblewrap is setuid root and gives each user of the host root's rights " +
				"(CVE-2026-41163, versions 0.11.0 and 0.11.1)"),
			(*Facts).plainBwrap,
		},
		{
			"bwrap-setuid",
			func(f *Facts) bool { return f.Bwrap.Setuid },
			text("this bubblewrap is setuid root, which wolffia does not need"),
			(*Facts).plainBwrap,
		},
		withoutUserNS(func(f *Facts) bool { return f.is(NoKernel) }),
		{
			"cgroup-kernel",
			func(f *Facts) bool { return f.is(Cgroups) },
			text("the kernel is built without control groups"),
			text("# install a kernel with CONFIG_CGROUPS=y"),
		},
	}
}

// devices are the causes of /dev/fuse.
func devices() []row {
	mknod := "mknod -m 666 /dev/fuse c 10 229"
	of := func(code, problem string, fix func(*Facts) string, when func(*Facts) bool) row {
		return row{code, func(f *Facts) bool { return f.is(Fuse) && when(f) }, text(problem), fix}
	}
	load := func(f *Facts) string {
		return f.Sudo("modprobe fuse") + "\n" + f.Put("fuse", "/etc/modules-load.d/fuse.conf")
	}
	open := func(f *Facts) string {
		return f.Sudo("chmod 666 /dev/fuse") + "\n" +
			f.Put(`KERNEL=="fuse", MODE="0666"`, "/etc/udev/rules.d/99-wolffia-fuse.rules")
	}
	rootOnly := func(f *Facts) bool { return f.says("is root's") }
	missing := func(f *Facts) bool { return f.says("no such file") || f.says("no such device") }
	return []row{
		of("fuse-container", "this container may not use /dev/fuse", (*Facts).Restart,
			func(f *Facts) bool { return f.Container != "" && !rootOnly(f) }),
		of("fuse-file", "/dev/fuse is another file than the device of FUSE",
			func(f *Facts) string { return f.Sudo("rm /dev/fuse", mknod) },
			func(f *Facts) bool { return f.says("not the device of FUSE") }),
		of("fuse-root", "root may open /dev/fuse, but not the user that root runs sandboxes as", open,
			rootOnly),
		of("fuse-device", "the kernel has FUSE, but /dev/fuse does not exist",
			func(f *Facts) string { return f.Sudo(mknod) },
			func(f *Facts) bool { return f.says("no such file") && f.FuseKnown }),
		of("fuse-module", "the kernel module fuse is not loaded", load, missing),
		of("fuse-denied", "this user may not open /dev/fuse", open, (*Facts).refused),
		of("fuse", "/dev/fuse cannot be used", load, func(*Facts) bool { return true }),
	}
}

// directories are the causes of where wolffia keeps its state, and of where a codebase is.
func directories() []row {
	elsewhere := text("# choose a directory on a local disk that you may write: " +
		"export WOLFFIA_STATE_DIR=/var/tmp/wolffia-$USER")
	of := func(code, problem string, texts ...string) row {
		when := func(f *Facts) bool { return f.is(State) && slices.ContainsFunc(texts, f.says) }
		return row{code, when, text(problem), elsewhere}
	}
	return []row{
		of("state-home", "the state directory has no place: HOME is not set", "home is not set"),
		of("state-read-only", "the state directory is on a file system that is read-only", "read-only file system"),
		of("state-full", "the file system of the state directory is full, or your quota of it is",
			"no space left", "quota exceeded"),
		of("state-denied", "this user may not write the state directory, or has no home",
			"permission denied", "not permitted", "no such file"),
		{
			"state-nfs",
			func(f *Facts) bool { return f.is(State) && f.Mounts.at(f.Dir).network() },
			func(f *Facts) string {
				return "the state directory is on a network file system (" + f.Mounts.at(f.Dir).fstype +
					"): locks may be lost, and other hosts see sandboxes that they cannot reach"
			},
			elsewhere,
		},
		{
			"wsl-drive",
			func(f *Facts) bool { return f.is(Codebase) && f.Kernel == wsl2 && f.Mounts.at(f.Dir).drive() },
			text("this directory is on a drive of Windows: it is slow, and keeps no modes and no owners"),
			text("# keep the codebase on the disk of Linux, such as in ~/src"),
		},
	}
}

// text returns a function for a fixed text.
func text(s string) func(*Facts) string { return func(*Facts) string { return s } }
