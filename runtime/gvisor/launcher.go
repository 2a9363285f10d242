// Package gvisor launches sandboxes with gVisor, a kernel in user space that answers
// the system calls of the programs inside. It needs neither root nor a daemon. All of
// the isolation is in [Spec] and [Flags]; the rest of the package finds and starts
// gVisor's program, runsc.
//
// What was measured and refused, as flags: --systrap-disable-fast-path (half as slow again), a
// larger cache of names (twice the memory, and a host's descriptor for each name), exclusive
// access (the host's changes must show), --host-uds=open (each program inside could connect to
// each socket that it is shown). As patches: other ways of mprotect, execve and private mappings,
// which save a program less than a seventh, or slow ld.so down.
package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
	"wolffia/internal/sys/timerslack"
	"wolffia/internal/sys/userns"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Name is the runtime's name.
const Name = "gvisor"

// A Launcher starts sandboxes with the runsc at [launch.Spec.Program].
type Launcher struct{}

var _ launch.Launcher = Launcher{}

// Name implements [launch.Launcher].
func (Launcher) Name() string { return Name }

// needed are the capabilities of runsc in its own user namespace, which it drops when
// the sandbox is set up (capabilities(7)).
var needed = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE,
	unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_MKNOD,
}

// attr returns the attributes of runsc's process. Its user namespace maps the caller's
// id to the id inside, since runsc shows a file's owner as it sees it there. It is PID 1
// of a process namespace, so that the kernel ends all of its processes with it or with
// the shim (pid_namespaces(7)). Its mount namespace ends with it too.
func attr(spec *launch.Spec) *syscall.SysProcAttr {
	if spec.RootInside {
		return &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
			UidMappings: userns.Same(), GidMappings: userns.Same(), GidMappingsEnableSetgroups: true,
			AmbientCaps: append(needed, unix.CAP_SETFCAP),
			Setsid:      true,
			Pdeathsig:   syscall.SIGKILL,
		}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: spec.UID, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: spec.GID, HostID: os.Getegid(), Size: 1}},
		AmbientCaps: needed,
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
	}
}

// Launch implements [launch.Launcher].
func (Launcher) Launch(spec *launch.Spec) (*launch.Instance, error) {
	defer spec.Barrier.Close() // nil has nothing to close
	if spec.Program == "" {
		return nil, errors.New("launch.Spec.Program is empty: it must be runsc's path")
	}
	if len(spec.Seccomp) == 0 {
		return nil, errors.New("no seccomp filter: a sandbox without one is not started")
	}
	if err := checkPlatform(spec.Platform, kvmDevice); err != nil {
		return nil, err
	}
	mounts := spec.Mounts()
	if err := checkPlaces(mounts); err != nil {
		return nil, err
	}
	if err := shield(mounts, filepath.Join(spec.Dir, "shown")); err != nil {
		return nil, err
	}
	if spec.RootDir == "" {
		if err := makeRoot(rootDir(spec), mounts); err != nil {
			return nil, err
		}
	}
	state := filepath.Join(spec.Dir, "state")
	as := Spec(spec, mounts)
	if spec.Memory != nil {
		var err error
		if as, err = restorable(spec, as); err != nil {
			return nil, err
		}
	}
	config, err := json.Marshal(as)
	if err == nil {
		err = errors.Join(os.Mkdir(state, 0o700),
			os.WriteFile(spec.FilterFile(), spec.Seccomp, 0o400),
			os.WriteFile(filepath.Join(spec.Dir, "config.json"), config, 0o600))
	}
	if err != nil {
		return nil, fmt.Errorf("write runsc's configuration: %w", err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("getrlimit RLIMIT_NOFILE: %w", err)
	}
	inst, err := start(spec, Flags(spec, state, spec.Dir, files.Max))
	if err != nil {
		return nil, err
	}
	inst.Pause = func() error { return pause(state, spec.Tag) }
	inst.Resume = func() error { return control(state, spec.Tag, methodResume) }
	inst.Save = func(dir *os.File) (func(bool) error, error) {
		return save(state, spec.Tag, dir, func() (*kept, error) { return keptNow(spec, as, nil) })
	}
	inst.Explain = explain
	return inst, nil
}

// room is for how many descriptors gVisor's kernel has a table when it starts. It
// moves the streams of PID 1 to the descriptors 253 to 255 (startingStdioFD in
// runsc/boot/loader.go), and has threads by then.
const room = 253

func start(spec *launch.Spec, flags []string) (*launch.Instance, error) {
	program, err := os.Open(spec.Program)
	if errors.Is(err, fs.ErrPermission) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "runsc: uid %d, as which the sandbox runs, may not execute it: chmod a+rx it", spec.UID)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "runsc: %w", err)
	}
	defer program.Close()
	given := []*os.File{program}
	if spec.Memory != nil {
		given = append(given, spec.Memory[1:]...)
	}
	c, err := child.StartPiped(child.WithBarrier(&child.Command{
		Path: "/proc/self/exe", Args: append([]string{"wolffia", stageArg}, flags...),
		Files: given, // from fdProgram on
		Attr:  attr(spec), Sockets: true, Room: room,
		// The slack of gVisor's threads is that of the programs inside.
		Slack: timerslack.Default,
	}, spec.Barrier))
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	tellStage(c.Stream)
	return &launch.Instance{Stream: c.Stream, Stderr: c.Stderr, PID: c.PID(), Wait: c.Wait, Kill: c.Kill}, nil
}
