package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"wolffia/internal/host/cause"
	"wolffia/internal/sys/cgroup"
	"wolffia/internal/sys/runsc"
	"wolffia/internal/sys/userns"
)

// Hosts that the machine of a test is not.
func on(change func(*host)) *host {
	h := cause.Read(fstest.MapFS{
		"proc/self/mountinfo": {Data: []byte("30 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 30 0:4 / /proc rw - proc proc rw\n")},
		"proc/self/ns/user":   {}, "proc/filesystems": {Data: []byte("nodev\tfuse\n")},
		"proc/sys/user/max_user_namespaces": {Data: []byte("31191\n")},
	}, false)
	h.Family, h.User = "debian", "ann"
	change(h)
	return h
}
func debian() *host { return on(func(*host) {}) }
func fedora() *host { return on(func(h *host) { h.Family = "fedora" }) }
func root() *host   { return on(func(h *host) { h.Root = true }) }
func docker() *host {
	return on(func(h *host) { h.Container, h.Filtered, h.Root = "docker", true, true })
}

// A decision is a host with facts, already decided, and what must be said.
type decision struct {
	name    string
	got     Result
	ok      bool
	problem string // is a part of it; "" for none
	fix     string // is a part of it; "" for none
}

// page returns the page that has all codes.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
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
		if code := d.got.Code; code != "" && !slices.Contains(cause.Codes(), code) && !strings.Contains(page(t), "`"+code+"`") {
			t.Errorf("%s: docs/hosts.md lacks the code %s", d.name, code)
		}
		if strings.Contains(d.got.Found+d.got.Problem, "\n") {
			t.Errorf("%s: more than a line: %+v", d.name, d.got)
		}
	}
}

func TestUserNSDecisions(t *testing.T) {
	eperm := &fs.PathError{Op: "fork/exec", Path: "/bin/mount", Err: syscall.EPERM}
	denied := errors.New("mount: /proc: permission denied.")
	closed := on(func(h *host) { h.Max = "0" })
	check(t, []decision{
		{"works", decideUserNS(usernsFacts{}, debian()), true, "", ""},
		{"none allowed", decideUserNS(usernsFacts{start: syscall.ENOSPC}, closed), false, "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"all in use", decideUserNS(usernsFacts{start: syscall.ENOSPC}, fedora()), false, "in use", "user.max_user_namespaces"},
		{"start refused", decideUserNS(usernsFacts{start: eperm}, docker()), false, "seccomp profile of this Docker container", "--security-opt seccomp=unconfined"},
		{"mount refused", decideUserNS(usernsFacts{mount: denied}, docker()), false, "forbids mounts", "--security-opt apparmor=unconfined"},
		{"old kernel", decideUserNS(usernsFacts{start: syscall.EINVAL}, debian()), false, "built without", "CONFIG_USER_NS"},
		{"odd error", decideUserNS(usernsFacts{start: syscall.ENOMEM}, debian()), false, "cannot start", ""},
		{"odd mount", decideUserNS(usernsFacts{mount: denied}, debian()), false, "permission denied", ""},
	})
}

func TestBubblewrapDecisions(t *testing.T) {
	failed := error(new(exec.ExitError)) // of a bubblewrap that has started
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
		{"fresh Arch", decideBubblewrap(bwrapFacts{}, on(func(h *host) { h.Family = "arch" })), false, "not installed", "sudo pacman -S --noconfirm bubblewrap"},
		{"fresh Alpine", decideBubblewrap(bwrapFacts{}, on(func(h *host) { h.Family, h.Root = "alpine", true })), false, "not installed", "apk add bubblewrap"},
		{"fresh SUSE", decideBubblewrap(bwrapFacts{}, on(func(h *host) { h.Family = "suse" })), false, "not installed", "sudo zypper install -y bubblewrap"},
		{"unknown", decideBubblewrap(bwrapFacts{}, on(func(h *host) { h.Family = "" })), false, "not installed", "# install the package bubblewrap"},
		{"works", decideBubblewrap(works, debian()), true, "", ""},
		{"old", decideBubblewrap(old, debian()), false, "too old", "apt-get"},
		{"something else", decideBubblewrap(bwrapFacts{path: "/x", version: "hello\nyou"}, debian()), false, "not bubblewrap", "apt-get"},
		{"shipped", decideBubblewrap(f(func(f *bwrapFacts) { f.shipped = true }), debian()), true, "", ""},
		{"refused", decideBubblewrap(bwrapFacts{refused: errors.New("others can write to it")}, debian()), false, "others can write", "apt-get"},
		{"setuid", decideBubblewrap(setuid, debian()), true, "setuid", "sudo chmod u-s /usr/bin/bwrap"},
		{"setuid fails", decideBubblewrap(f(func(f *bwrapFacts) {
			f.setuid, f.run, f.noProc, f.stderr = true, failed, failed, "bwrap: not in setuid mode"
		}), debian()), false, "setuid", "chmod u-s"},
		{"Docker, masked", decideBubblewrap(noProc, docker()), false, "masked", "--security-opt systempaths=unconfined"},
		{"masked", decideBubblewrap(noProc, debian()), false, "Can't mount proc", "findmnt"},
		{"AppArmor", decideBubblewrap(noUser, debian()), false, "feature userns", ""},
		{"slow", decideBubblewrap(f(func(f *bwrapFacts) { f.run = context.DeadlineExceeded }), debian()), false, "in time", ""},
		{"odd", decideBubblewrap(f(func(f *bwrapFacts) { f.run, f.noProc = failed, failed }), debian()), false, "does not start", ""},
	})
}

func TestFuseDecisions(t *testing.T) {
	open := func(err error) error { return fmt.Errorf("open /dev/fuse: %w", err) }
	bare := on(func(h *host) { h.FuseKnown = false })
	check(t, []decision{
		{"works", decideFuse(nil, debian()), true, "", ""},
		{"no module", decideFuse(open(syscall.ENOENT), bare), false, "not loaded", "sudo modprobe fuse\necho 'fuse' | sudo tee /etc/modules-load.d/fuse.conf"},
		{"no device", decideFuse(open(syscall.ENOENT), root()), false, "/dev/fuse does not exist", "mknod -m 666 /dev/fuse c 10 229"},
		{"0600", decideFuse(open(syscall.EACCES), debian()), false, "may not open", "sudo chmod 666 /dev/fuse\necho 'KERNEL==\"fuse\", MODE=\"0666\"' | sudo tee /etc/udev/rules.d/"},
		{"another file", decideFuse(errors.New("/dev/fuse is not the device of FUSE"), debian()), false, "is another file", "sudo rm /dev/fuse"},
		{"root only", decideFuse(errors.New("/dev/fuse is root's: x"), root()), false, "not the user", "chmod 666 /dev/fuse"},
		{"unloaded", decideFuse(open(syscall.ENODEV), debian()), false, "not loaded", "modprobe"},
		{"Docker", decideFuse(open(syscall.ENOENT), docker()), false, "container", "--device /dev/fuse"},
		{"Docker, device group", decideFuse(open(syscall.EPERM), docker()), false, "container", "--device /dev/fuse"},
		{"Kubernetes", decideFuse(open(syscall.ENOENT), on(func(h *host) { h.Container = "kubernetes" })), false, "container", "device plugin"},
		{"odd", decideFuse(open(syscall.EIO), debian()), false, "input/output", "modprobe"},
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
		{"hostile user", decideDocker(one(syscall.EACCES), false, &host{User: "a; rm"}), false, "may not talk", "docker $USER"},
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
		{"seccomp", decideSeccomp(syscall.EFAULT, "kill errno\n", debian()), true, "", ""},
		{"no seccomp", decideSeccomp(syscall.EINVAL, "", debian()), false, "cannot filter", "CONFIG_SECCOMP_FILTER"},
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
			path: "/usr/bin/bwrap", version: "bubblewrap 0.8.0", run: new(exec.ExitError), noProc: new(exec.ExitError),
			stderr: "bwrap: No permissions to create new namespace",
		}, debian())}
		resolve(list)
		if got := list[1].Because; (got == UserNamespaces) == ok {
			t.Errorf("user namespaces %v: because %q", ok, got)
		}
	}
}
