package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/sys/cgroup"
	"wolffia/internal/sys/runsc"
	"wolffia/internal/sys/userns"
)

// Hosts that the machine of a test is not.
func debian() *host { return &host{family: "debian", program: "/opt/my wolffia", user: "ann"} }
func fedora() *host { return &host{family: "fedora"} }
func root() *host   { return &host{family: "debian", root: true} }
func docker() *host {
	return &host{family: "debian", container: "docker", filtered: true, root: true}
}

// A decision is a host with facts, already decided, and what must be said.
type decision struct {
	name    string
	got     Result
	ok      bool
	problem string // is a part of it; "" for none
	fix     string // is a part of it; "" for none
}

func check(t *testing.T, decisions []decision) {
	t.Helper()
	for _, d := range decisions {
		if d.got.OK != d.ok {
			t.Errorf("%s: OK %v", d.name, d.got.OK)
		}
		if !strings.Contains(d.got.Problem, d.problem) || d.problem == "" && d.got.Problem != "" {
			t.Errorf("%s: problem %q, want %q", d.name, d.got.Problem, d.problem)
		}
		if !strings.Contains(d.got.Fix, d.fix) || d.fix == "" && d.got.Fix != "" {
			t.Errorf("%s: fix %q, want %q", d.name, d.got.Fix, d.fix)
		}
		if strings.Contains(d.got.Found+d.got.Problem, "\n") {
			t.Errorf("%s: more than a line: %+v", d.name, d.got)
		}
	}
}

func TestUserNSDecisions(t *testing.T) {
	eperm := &fs.PathError{Op: "fork/exec", Path: "/bin/mount", Err: syscall.EPERM}
	denied := errors.New("mount: /proc: permission denied.")
	check(t, []decision{
		{"fresh Debian", decideUserNS(usernsFacts{kernel: true, max: "31191"}, debian()), true, "", ""},
		{
			"Debian, root only", decideUserNS(usernsFacts{kernel: true, max: "31191", clone: "0", start: eperm}, debian()), false,
			"kernel.unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1\necho 'kernel.unprivileged_userns_clone = 1' | sudo tee /etc/sysctl.d/90-wolffia.conf",
		},
		{"Debian, root", decideUserNS(usernsFacts{kernel: true, clone: "0"}, root()), true, "", ""},
		{
			"none allowed", decideUserNS(usernsFacts{kernel: true, max: "0", start: syscall.ENOSPC}, root()), false,
			"user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000",
		},
		{
			"none allowed, in a container", decideUserNS(usernsFacts{kernel: true, max: "0", start: syscall.ENOSPC}, docker()), false,
			"user.max_user_namespaces is 0", "# on the host of this container",
		},
		{
			"all in use", decideUserNS(usernsFacts{kernel: true, max: "5", start: syscall.ENOSPC}, fedora()), false,
			"in use", "user.max_user_namespaces",
		},
		{
			"Ubuntu 24.04, no mounts", decideUserNS(usernsFacts{kernel: true, max: "31191", clone: "1", armor: "1", mount: denied}, debian()), false,
			"AppArmor", "profile wolffia \"/opt/my wolffia\" flags=(unconfined) {\n  userns,",
		},
		{
			"Ubuntu 24.04, no map", decideUserNS(usernsFacts{kernel: true, armor: "1", start: syscall.EACCES}, debian()), false,
			"AppArmor", "sudo apparmor_parser -r /etc/apparmor.d/wolffia",
		},
		{"Ubuntu 24.04 with a profile", decideUserNS(usernsFacts{kernel: true, armor: "1"}, debian()), true, "", ""},
		{
			"Docker", decideUserNS(usernsFacts{kernel: true, max: "31191", start: eperm}, docker()), false,
			"container's seccomp profile", "--security-opt seccomp=unconfined",
		},
		{
			"Docker on Ubuntu", decideUserNS(usernsFacts{kernel: true, armor: "1", start: eperm}, docker()), false,
			"container's seccomp profile", "--security-opt apparmor=unconfined",
		},
		{
			"Docker, AppArmor", decideUserNS(usernsFacts{kernel: true, mount: denied}, docker()), false,
			"forbids mounts", "--security-opt apparmor=unconfined",
		},
		{
			"Podman", decideUserNS(usernsFacts{kernel: true, start: eperm}, &host{container: "podman"}), false,
			"seccomp", "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL",
		},
		{
			"another sandbox", decideUserNS(usernsFacts{kernel: true, start: eperm}, &host{filtered: true}), false,
			"a seccomp filter", "docker run",
		},
		{"chroot", decideUserNS(usernsFacts{kernel: true, start: eperm}, debian()), false, "chroot", ""},
		{"old kernel", decideUserNS(usernsFacts{start: syscall.EINVAL}, debian()), false, "built without", "CONFIG_USER_NS"},
		{"odd error", decideUserNS(usernsFacts{kernel: true, start: syscall.ENOMEM}, debian()), false, "cannot start", ""},
		{"odd mount", decideUserNS(usernsFacts{kernel: true, mount: denied}, debian()), false, "permission denied", ""},
	})
}

func TestBubblewrapDecisions(t *testing.T) {
	failed := errors.New("exit status 1")
	f := func(change func(*bwrapFacts)) bwrapFacts {
		f := bwrapFacts{path: "/usr/bin/bwrap", version: "bubblewrap 0.11.0"}
		change(&f)
		return f
	}
	works := f(func(*bwrapFacts) {})
	old := f(func(f *bwrapFacts) { f.version = "bubblewrap 0.6.1" })
	setuid := f(func(f *bwrapFacts) { f.setuid = true })
	noProc := f(func(f *bwrapFacts) {
		f.run, f.stderr = failed, "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
	})
	noUser := f(func(f *bwrapFacts) {
		f.run, f.noProc, f.stderr = failed, failed, "bwrap: setting up uid map: Permission denied"
	})
	check(t, []decision{
		{"fresh Debian", decideBubblewrap(bwrapFacts{}, debian()), false, "not installed", "sudo apt-get install -y bubblewrap"},
		{"fresh Fedora", decideBubblewrap(bwrapFacts{}, fedora()), false, "not installed", "sudo dnf install -y bubblewrap"},
		{"fresh Arch", decideBubblewrap(bwrapFacts{}, &host{family: "arch"}), false, "not installed", "sudo pacman -S --noconfirm bubblewrap"},
		{"fresh Alpine", decideBubblewrap(bwrapFacts{}, &host{family: "alpine", root: true}), false, "not installed", "apk add bubblewrap"},
		{"fresh SUSE", decideBubblewrap(bwrapFacts{}, &host{family: "suse"}), false, "not installed", "sudo zypper install -y bubblewrap"},
		{"unknown", decideBubblewrap(bwrapFacts{}, &host{}), false, "not installed", "# install the package bubblewrap"},
		{"works", decideBubblewrap(works, debian()), true, "", ""},
		{"old", decideBubblewrap(old, debian()), false, "too old", "apt-get"},
		{"something else", decideBubblewrap(bwrapFacts{path: "/x", version: "hello\nyou"}, debian()), false, "not bubblewrap", "apt-get"},
		{"setuid", decideBubblewrap(setuid, debian()), true, "setuid", "sudo chmod u-s /usr/bin/bwrap"},
		{"setuid fails", decideBubblewrap(f(func(f *bwrapFacts) {
			f.setuid, f.run, f.noProc, f.stderr = true, failed, failed, "bwrap: not in setuid mode"
		}), debian()), false, "setuid", "chmod u-s"},
		{"Docker, masked", decideBubblewrap(noProc, docker()), false, "masked", "--security-opt systempaths=unconfined"},
		{"masked", decideBubblewrap(noProc, debian()), false, "Can't mount proc", "findmnt"},
		{"AppArmor", decideBubblewrap(noUser, debian()), false, "feature userns", ""},
		{"slow", decideBubblewrap(f(func(f *bwrapFacts) { f.run = context.DeadlineExceeded }), debian()), false, "in time", ""},
		{"odd", decideBubblewrap(f(func(f *bwrapFacts) { f.run, f.noProc = failed, failed }), debian()), false, "exit status 1", ""},
	})
}

func TestFuseDecisions(t *testing.T) {
	check(t, []decision{
		{"works", decideFuse(fuseFacts{}, debian()), true, "", ""},
		{
			"no module", decideFuse(fuseFacts{open: syscall.ENOENT}, debian()), false, "not loaded",
			"sudo modprobe fuse\necho 'fuse' | sudo tee /etc/modules-load.d/fuse.conf",
		},
		{"no device", decideFuse(fuseFacts{open: syscall.ENOENT, module: true}, root()), false, "/dev/fuse does not exist", "mknod -m 666 /dev/fuse c 10 229"},
		{
			"0600", decideFuse(fuseFacts{open: syscall.EACCES, module: true}, debian()), false, "may not open",
			"sudo chmod 666 /dev/fuse\necho 'KERNEL==\"fuse\", MODE=\"0666\"' | sudo tee /etc/udev/rules.d/",
		},
		{"another file", decideFuse(fuseFacts{open: errNotFuse, module: true}, debian()), false, "is not the device of FUSE", "sudo rm /dev/fuse"},
		{"root only", decideFuse(fuseFacts{closed: true, module: true}, root()), false, "not the user", "chmod 666 /dev/fuse"},
		{"unloaded", decideFuse(fuseFacts{open: syscall.ENODEV}, debian()), false, "not loaded", "modprobe"},
		{"Docker", decideFuse(fuseFacts{open: syscall.ENOENT, module: true}, docker()), false, "container", "--device /dev/fuse"},
		{"Docker, device group", decideFuse(fuseFacts{open: syscall.EPERM, module: true}, docker()), false, "container", "--device /dev/fuse"},
		{"Kubernetes", decideFuse(fuseFacts{open: syscall.ENOENT}, &host{container: "kubernetes"}), false, "container", "device plugin"},
		{"odd", decideFuse(fuseFacts{open: syscall.EIO}, debian()), false, "input/output", "modprobe"},
	})
}

func TestFusermountDecisions(t *testing.T) {
	f := fusermountFacts{path: "/usr/bin/fusermount3", version: "fusermount3 version: 3.14.0", setuid: true, others: true}
	plain, closed, stays := f, f, f
	plain.setuid, closed.others, stays.stays = false, false, errors.New("fusermount3 needs /etc/mtab")
	check(t, []decision{
		{"works", decideFusermount(f, debian()), true, "", ""},
		{"none", decideFusermount(fusermountFacts{}, debian()), false, "not installed", "apt-get install -y fuse3"},
		{"not setuid", decideFusermount(plain, debian()), false, "not setuid", "sudo chmod 4755 /usr/bin/fusermount3"},
		{"closed", decideFusermount(closed, debian()), false, "user_allow_other", "sudo tee -a /etc/fuse.conf"},
		{"no mtab", decideFusermount(stays, debian()), false, "/etc/mtab", "sudo ln -s ../proc/self/mounts /etc/mtab"},
		{"root", decideFusermount(plain, root()), true, "", ""},
	})
}

func TestEngineDecisions(t *testing.T) {
	one := func(err error) []answer { return []answer{{addr: "unix:///s", err: err}} }
	check(t, []decision{
		{"Docker", decideDocker([]answer{{addr: "unix:///s", server: "Docker/27"}}, false, debian()), true, "", ""},
		{"Podman", decideDocker(append(one(syscall.ENOENT), answer{addr: "unix:///p", server: "Libpod/5"}), false, debian()), true, "", ""},
		{"none", decideDocker(one(syscall.ENOENT), false, debian()), false, "no Docker", "sudo apt-get install -y docker.io"},
		{"none, Fedora", decideDocker(one(syscall.ENOENT), false, fedora()), false, "no Docker", "moby-engine"},
		{"no group", decideDocker(one(syscall.EACCES), false, debian()), false, "may not talk", "sudo usermod -aG docker ann"},
		{"hostile user", decideDocker(one(syscall.EACCES), false, &host{user: "a; rm"}), false, "may not talk", "docker $USER"},
		{"stopped", decideDocker(one(syscall.ECONNREFUSED), false, debian()), false, "no engine listens", "systemctl enable --now docker"},
		{"named, none", decideDocker(one(syscall.ENOENT), true, debian()), false, "does not answer", ""},
		{"silent", decideDocker(one(context.DeadlineExceeded), false, debian()), false, "does not answer", ""},
		{"runsc", decideRunsc(runscFacts{found: &runsc.Found{Path: "/bin/runsc", Version: "v1"}}), true, "", ""},
		{"no runsc", decideRunsc(runscFacts{none: runsc.ErrNone}), false, "neither beside", "make runsc"},
		{"old runsc", decideRunsc(runscFacts{none: errors.New("/bin/runsc: too old")}), false, "too old", "make runsc"},
		{"broken runsc", decideRunsc(runscFacts{found: &runsc.Found{Path: "/bin/runsc"}, run: errors.New("exit status 1"), stderr: "no\nway"}), false, "start: no", ""},
	})
}

func TestCgroupDecisions(t *testing.T) {
	refused := func(kind cgroup.Kind) *cgroup.Refusal { return &cgroup.Refusal{Kind: kind, Problem: "so"} }
	check(t, []decision{
		{"none", decideCgroups(refused(cgroup.NoGroups), debian()), false, "so", ""},
		{"v1", decideCgroups(refused(cgroup.OldVersion), debian()), false, "so", "unified_cgroup_hierarchy"},
		{"no session", decideCgroups(refused(cgroup.NoManager), debian()), false, "so", "sudo loginctl enable-linger ann"},
		{"not given", decideCgroups(refused(cgroup.NotGiven), debian()), false, "so", "Delegate=cpu cpuset io memory pids"},
		{"not given", decideCgroups(refused(cgroup.NotGiven), debian()), false, "so", "sudo mkdir -p /etc/systemd"},
		{"not given, Docker", decideCgroups(refused(cgroup.NotGiven), docker()), false, "so", "--privileged"},
		{"full, Docker", decideCgroups(refused(cgroup.Occupied), docker()), false, "so", "/sys/fs/cgroup/init"},
		{"full", decideCgroups(refused(cgroup.Occupied), root()), false, "so", "DelegateSubgroup"},
	})
}

func TestKernelDecisions(t *testing.T) {
	check(t, []decision{
		{"seccomp", decideSeccomp(syscall.EFAULT, "kill errno\n"), true, "", ""},
		{"no seccomp", decideSeccomp(syscall.EINVAL, ""), false, "cannot filter", "CONFIG_SECCOMP_FILTER"},
		{"landlock", decideLandlock(7, nil), true, "", ""},
		{"landlock off", decideLandlock(0, syscall.EOPNOTSUPP), false, "not enabled", ""},
		{"no landlock", decideLandlock(0, syscall.ENOSYS), false, "has no Landlock", ""},
	})
}

func TestSubIDDecisions(t *testing.T) {
	ids := &userns.IDs{UID: 1000, GID: 1000, SubUID: 100000, SubGID: 200000}
	lack := &userns.Lack{Problem: "no range", Fix: "usermod x"}
	check(t, []decision{
		{"ids", decideSubIDs(ids, nil, debian()), true, "", ""},
		{"no ids", decideSubIDs(ids, fmt.Errorf("more: %w", lack), debian()), false, "no range", "sudo usermod x"},
		{"no namespaces", decideSubIDs(ids, userns.ErrNamespaces, debian()), false, "no user namespace", ""},
	})
}

// What another missing feature causes is not a cause of its own.
func TestBecause(t *testing.T) {
	for _, ok := range []bool{false, true} {
		list := []Result{{Feature: UserNamespaces, OK: ok}, decideBubblewrap(bwrapFacts{
			path: "/usr/bin/bwrap", version: "bubblewrap 0.8.0", run: errors.New("exit status 1"), noProc: errors.New("exit status 1"),
			stderr: "bwrap: No permissions to create new namespace",
		}, debian())}
		resolve(list)
		if got := list[1].Because; (got == UserNamespaces) == ok {
			t.Errorf("user namespaces %v: because %q", ok, got)
		}
	}
}
