// Package hosttest runs wolffia on hosts that are made of this one: doctor and a failed run must name
// the same cause.
package hosttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/sys/runsc"
	"wolffia/internal/sys/seccomp"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testbin.Remove()
	os.Exit(code)
}

// onHost is set in the process that makes a host: the host's name, and the directory of the programs.
const onHost = "WOLFFIA_TEST_ON_HOST"

// A madeHost is a host made of this one, in a mount namespace, and what wolffia says of it.
type madeHost struct {
	name   string
	flags  uintptr // more namespaces
	make   func() error
	env    []string            // more than HOME and PATH
	attr   syscall.SysProcAttr // of wolffia
	codes  []string            // which the causes are of, by whether this host is a container; nil: none
	works  bool                // wolffia run
	filter bool                // a seccomp filter is on the process
	run    []string            // the command; nil: true
}

// placeOfHost is where the test puts its things: a file system of its own.
const placeOfHost = "/mnt"

func madeHosts() []madeHost {
	mount := func(source, target, fstype string, flags uintptr, data string) func() error {
		return func() error { return unix.Mount(source, target, fstype, flags, data) }
	}
	readOnly := func() error {
		for _, place := range []string{"/", placeOfHost} {
			if err := unix.Mount("", place, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
		}
		return nil
	}
	elsewhere := "WOLFFIA_STATE_DIR=" + placeOfHost + "/other/state"
	return []madeHost{
		{name: "as it is", make: func() error { return nil }, works: true},
		{name: "masked proc", make: mount("none", "/proc/irq", "tmpfs", unix.MS_RDONLY, ""), codes: []string{"proc-covered", "container-proc", "lxc-proc"}},
		{name: "a part of proc", make: mount("proc", "/proc", "proc", 0, "subset=pid"), codes: []string{"proc-subset"}},
		{name: "hidepid", make: mount("proc", "/proc", "proc", 0, "hidepid=2"), works: true},
		{name: "no user namespaces", flags: unix.CLONE_NEWUSER, make: func() error {
			return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
		}, codes: []string{"userns-max-zero"}},
		{
			name: "chroot", make: makeChroot, attr: syscall.SysProcAttr{Chroot: placeOfHost + "/root"},
			codes: []string{"chroot", "container-seccomp"},
		},
		{name: "filter of an engine", make: func() error { return nil }, filter: true, codes: []string{"container-seccomp", "seccomp-filter"}},
		{name: "no home", make: func() error { return nil }, env: []string{"HOME=/nonexistent"}, codes: []string{"state-denied", "state-read-only"}},
		{name: "no HOME", make: func() error { return nil }, env: []string{"HOME="}, codes: []string{"state-home"}},
		{name: "read-only root", make: readOnly, codes: []string{"state-read-only"}},
		{name: "read-only root, state elsewhere", make: readOnly, env: []string{elsewhere}, works: true},
		{
			name: "noexec", make: func() error {
				return unix.Mount("", placeOfHost+"/other", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOEXEC, "")
			},
			env: []string{elsewhere, "TMPDIR=" + placeOfHost + "/other"}, works: true,
		},
		{
			name: "setuid bubblewrap", make: setuidBwrap, env: []string{"PATH=" + placeOfHost + "/own:" + systemPath},
			codes: []string{"bwrap-setuid", "bwrap-setuid-cve"}, works: true,
		},
		{name: "NixOS", make: makeNix, env: []string{"PATH=/run/current-system/sw/bin"}, works: true, run: []string{"tool"}},
		{name: "another device", make: mount("/dev/null", "/dev/fuse", "", unix.MS_BIND, ""), codes: []string{"fuse-file", "fuse-container"}},
	}
}

const systemPath = "/usr/local/bin:/usr/bin:/bin"

// makeChroot makes a root without a mount of its own, as debootstrap's.
func makeChroot() (err error) {
	root := placeOfHost + "/root"
	names := []string{"proc", "dev", "usr", "bin", "sbin", "lib", "lib64", "etc", strings.TrimPrefix(placeOfHost, "/")}
	for _, name := range names {
		from, to := "/"+name, root+"/"+name
		if link, lerr := os.Readlink(from); lerr == nil {
			err = errors.Join(err, os.Symlink(link, to))
			continue
		}
		if _, serr := os.Stat(from); serr != nil {
			continue
		}
		err = errors.Join(err, os.MkdirAll(to, 0o755))
		if from != placeOfHost {
			err = errors.Join(err, unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""))
		}
	}
	for _, name := range []string{"bin", "user"} {
		from := placeOfHost + "/" + name
		err = errors.Join(err, os.MkdirAll(root+from, 0o755), unix.Mount(from, root+from, "", unix.MS_BIND, ""))
	}
	return err
}

// makeNix makes a root as that of NixOS: PATH has a directory that a chain of links leads to, whose
// files are links into the store. It enters that root.
func makeNix() error {
	root := placeOfHost + "/root"
	const system, path, tool = "/nix/store/a-nixos-system", "/nix/store/b-system-path", "/nix/store/c-tool"
	err := makeChroot()
	for _, dir := range []string{path + "/bin", tool + "/bin", system, "/run", "/tmp", "/old"} {
		err = errors.Join(err, os.MkdirAll(root+dir, 0o755))
	}
	for _, link := range [][2]string{
		{system, "/run/current-system"},
		{path, system + "/sw"},
		{tool + "/bin/tool", path + "/bin/tool"},
		{"/usr/bin/bwrap", path + "/bin/bwrap"},
		{"/nix/store/d-home/.bashrc", placeOfHost + "/user/.bashrc"},
	} {
		err = errors.Join(err, os.Symlink(link[0], root+link[1]))
	}
	return errors.Join(err,
		os.WriteFile(root+tool+"/bin/tool", []byte("#!/bin/sh\nexit 0\n"), 0o755),
		unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, ""),
		unix.PivotRoot(root, root+"/old"), os.Chdir("/"), unix.Unmount("/old", unix.MNT_DETACH))
}

func setuidBwrap() error {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	own := placeOfHost + "/own"
	return errors.Join(err, os.Mkdir(own, 0o755), os.WriteFile(own+"/bwrap", b, 0o755), os.Chmod(own+"/bwrap", 0o755|os.ModeSetuid))
}

// Doctor and a failed run name the same cause, on hosts that are made here. Root makes them, and an
// unprivileged user is on them.
func TestHosts(t *testing.T) {
	if name, bin, is := strings.Cut(os.Getenv(onHost), " in "); is {
		i := slices.IndexFunc(madeHosts(), func(h madeHost) bool { return h.name == name })
		madeHosts()[i].test(t, bin)
		return
	}
	testenv.Root(t)
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	bin := testbin.Dir(t)
	for _, h := range madeHosts() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestHosts$", "-test.v", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), onHost+"="+h.name+" in "+bin)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | h.flags, Pdeathsig: syscall.SIGKILL}
			if h.flags&unix.CLONE_NEWUSER != 0 {
				ids := []syscall.SysProcIDMap{{Size: 1 << 16}}
				cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
				cmd.SysProcAttr.GidMappingsEnableSetgroups = true
			}
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestHosts")) {
				t.Errorf("got err %v, output\n%s", err, out)
			}
		})
	}
}

// test makes the host and tests wolffia on it.
func (h *madeHost) test(t *testing.T, bin string) {
	const nobody = 65534
	user, other := placeOfHost+"/user", placeOfHost+"/other"
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	for _, do := range []func() error{
		func() error { return unix.Mount("none", placeOfHost, "tmpfs", 0, "mode=755") },
		func() error {
			return errors.Join(os.MkdirAll(user+"/project", 0o755), os.Mkdir(other, 0o755), os.Mkdir(placeOfHost+"/bin", 0o755))
		},
		func() error { return unix.Mount("none", other, "tmpfs", 0, "mode=777") },
		func() error { return unix.Mount(bin, placeOfHost+"/bin", "", unix.MS_BIND, "") },
		func() error {
			return errors.Join(os.Chown(user, nobody, nobody), os.Chown(user+"/project", nobody, nobody))
		},
		h.make,
	} {
		if err == nil {
			err = do()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if h.filter {
		runtime.LockOSThread() // its children have the filter; the thread ends with the test
		if err := install(nobody); err != nil {
			t.Fatal(err)
		}
	}
	wolffia := func(args ...string) []byte {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), placeOfHost+"/bin/wolffia", args...)
		cmd.Env = append([]string{"HOME=" + user, "PATH=" + systemPath}, h.env...)
		attr := h.attr
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		cmd.Dir, cmd.SysProcAttr, cmd.Stderr = user+"/project", &attr, &stderr
		out, err := cmd.Output()
		t.Logf("wolffia %q: %v\n%s%s", args, err, out, stderr.Bytes())
		return out
	}
	h.check(t, wolffia)
}

// check has wolffia examine the host, and run a command there.
func (h *madeHost) check(t *testing.T, wolffia func(args ...string) []byte) {
	t.Helper()
	var results []probe.Result
	if err := json.Unmarshal(wolffia("doctor", "--json"), &results); err != nil {
		t.Fatal(err)
	}
	var causes []string
	for _, r := range results {
		if r.Required && r.Problem != "" && r.Because == "" && r.Feature != "programs" {
			causes = append(causes, r.Code)
			if strings.Contains(r.Problem, "\n") || r.Fix == "" || r.OK != h.works {
				t.Errorf("doctor: got %+v; want one line, a fix, and OK: %v", r, h.works)
			}
		}
	}
	var ran struct {
		ExitCode *int
		Error    struct{ Code, Fix, Message string }
	}
	command := h.run
	if command == nil {
		command = []string{"true"}
	}
	if err := json.Unmarshal(wolffia(append([]string{"run", "--json", "--"}, command...)...), &ran); err != nil {
		t.Fatal(err)
	}
	switch {
	case (h.codes == nil) != (causes == nil), slices.ContainsFunc(causes, func(c string) bool { return !slices.Contains(h.codes, c) }):
		t.Errorf("doctor: got the causes %q; want of %q", causes, h.codes)
	case h.works && (ran.ExitCode == nil || *ran.ExitCode != 0):
		t.Errorf("run: got %+v; want the exit code 0", ran)
	case !h.works && (!slices.Contains(causes, ran.Error.Code) || ran.Error.Fix == "" || !strings.Contains(ran.Error.Message, "\n"+ran.Error.Code+": ")):
		t.Errorf("run: got %+v; want a cause of %q and its fix", ran.Error, causes)
	}
}

// Who makes a state directory on NFS is warned, once. The mounts are told to wolffia only: no file
// system of another machine can be mounted here.
func TestStateOnNFS(t *testing.T) {
	testenv.Root(t)
	dir := t.TempDir()
	mounts := filepath.Join(dir, "mountinfo")
	text := "30 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n50 30 0:51 / " + dir + " rw - nfs4 filer:/export rw,vers=4.2\n"
	if err := os.WriteFile(mounts, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, warned := range []bool{true, false} {
		const script = `mount --bind "$1" /proc/$$/mountinfo && exec "$2" --state-dir "$3" ls`
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", mounts, filepath.Join(testbin.Dir(t), "wolffia"), dir+"/state")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // which makes all mounts private
		out, err := cmd.CombinedOutput()
		if got := bytes.Count(out, []byte("warning: the state directory is on a network file system (nfs4)")); err != nil || (got == 1) != warned {
			t.Errorf("command %d: got err %v, %s; want a warning: %v", i, err, out, warned)
		}
	}
}

// install puts the filter of a container without rights on this thread.
func install(id uint32) error {
	filter, err := seccomp.Filter(id, id)
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// Wolffia in gVisor says that it is gVisor: bubblewrap's error would lead to permissions.
func TestHostGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Runsc)
	found, err := runsc.Find(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("cd %[1]s; %[2]s doctor --json; %[2]s run --no-codebase -- true", dir, filepath.Join(testbin.Dir(t), "wolffia"))
	// runsc do puts an overlay over the host: nothing is written there.
	cmd := exec.CommandContext(t.Context(), found.Path, "--rootless", "--network=none", "--ignore-cgroups", "--root="+filepath.Join(dir, "runsc"),
		"do", "env", "HOME="+dir, "WOLFFIA_STATE_DIR=/var/tmp/state-in-gvisor", "PATH="+systemPath, "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte(`"code": "gvisor-host"`)); n != 1 || !bytes.Contains(out, []byte("\ngvisor-host: the kernel here is gVisor")) {
		t.Errorf("got err %v, output %s; want the cause gvisor-host by doctor, and by run", err, out)
	}
}
