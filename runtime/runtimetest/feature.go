package runtimetest

import (
	"errors"
	"os"
	"path/filepath"

	"wolffia/perm"
	"wolffia/runtime"
)

// A Feature is a part of the contract that an implementation may lack.
type Feature string

// The features.
const (
	// Isolation: a sandbox has a file system, processes, a network and
	// everything else of its own; the security invariants hold.
	Isolation Feature = "Isolation"
	// Filter: Permissions decide what of the codebase is there.
	Filter Feature = "Filter"
	// LiveRules: the runtime is a Workspace. It means Filter, too.
	LiveRules Feature = "LiveRules"
	// Recovery: another process sees the same sandboxes and works with them.
	Recovery Feature = "Recovery"
	// Death: a sandbox whose host process is killed is dead.
	Death Feature = "Death"
	// Terminal: ProcessSpec.TTY. Without it, that is ErrUnsupported.
	Terminal Feature = "Terminal"
	// Mounts: SandboxConfig.Mounts. Without it, they are ErrUnsupported.
	Mounts Feature = "Mounts"
	// Network: NetworkHost. Without it, that is ErrUnsupported.
	Network Feature = "Network"
	// Names: NetworkFiltered with SandboxConfig.Egress. Without it, that is ErrUnsupported.
	Names Feature = "Names"
	// Rootfs: SandboxConfig.Rootfs. Without it, that is ErrUnsupported.
	Rootfs Feature = "Rootfs"
	// Image: SandboxConfig.Image. Without it, that is ErrUnsupported.
	Image Feature = "Image"
	// Disk: Resources.Disk. Without it, that is ErrUnsupported.
	Disk Feature = "Disk"
	// HostKernel: the host's own kernel answers system calls, in namespaces of
	// the sandbox's own. Without it there is another kernel, which no other
	// sandbox shares.
	HostKernel Feature = "HostKernel"
	// UserNamespace: its processes are in a user namespace of their own. Without
	// it, only what they are refused keeps them from what their uid may elsewhere.
	UserNamespace Feature = "UserNamespace"
	// Limits: Resources.Memory, CPUs and PIDs, all of them exactly. Without it,
	// there is one that is ErrUnsupported.
	Limits Feature = "Limits"
	// OutOfMemory: what takes more than Resources.Memory is ended, and the
	// sandbox goes on. Without it, the sandbox is dead, and says why.
	OutOfMemory Feature = "OutOfMemory"
	// RefusedFifos: making a FIFO by a name against the rules is an error.
	// Without it there is one, in the sandbox's memory, and none on the host.
	RefusedFifos Feature = "RefusedFifos"
	// Lifetime: SandboxConfig.TTL and IdleTimeout, and Touch, Renew and Prune
	// of Runtime. Without it, they are ErrUnsupported.
	Lifetime Feature = "Lifetime"
	// Ports: SandboxConfig.Publish, Expose and Sockets, and Executor.DialPort.
	Ports Feature = "Ports"
	// Pause: Pause and Resume, of a sandbox with Resources.PIDs. Without it, they are ErrUnsupported.
	Pause Feature = "Pause"
	// CopyOnWrite: SandboxConfig.CopyOnWrite, and the runtime is a Workspace.
	CopyOnWrite Feature = "CopyOnWrite"
)

// probes tell whether a runtime that is said to lack a feature has it. Those
// that are nil are seen from Config.
var probes = map[Feature]func(e *env) bool{
	Isolation: func(e *env) bool {
		secret := filepath.Join(e.dir(), "file")
		e.write(secret, "host")
		s := e.start(nil)
		return e.sh(s.ID, "cat "+secret).ExitCode != 0
	},
	Filter: func(e *env) bool {
		dir := e.dir()
		e.write(filepath.Join(dir, "file"), "host")
		s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=none")})
		return e.sh(s.ID, "cat file").ExitCode != 0
	},
	LiveRules: func(e *env) bool {
		_, is := e.rt.(runtime.Workspace)
		return is
	},
	Recovery: nil,
	Death:    nil,
	Terminal: func(e *env) bool {
		s := e.start(nil)
		p, err := e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{Command: []string{"true"}, TTY: true})
		if err == nil {
			_ = p.Close()
		}
		return e.supported(err)
	},
	Mounts: func(e *env) bool {
		return e.canCreate(&runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: e.dir(), Target: "/data"}}})
	},
	Network: func(e *env) bool { return e.canCreate(&runtime.SandboxConfig{Network: runtime.NetworkHost}) },
	Names:   func(e *env) bool { return e.canCreate(&runtime.SandboxConfig{Network: runtime.NetworkFiltered}) },
	Rootfs:  func(e *env) bool { return e.canCreate(&runtime.SandboxConfig{Rootfs: e.dir()}) },
	Image: func(e *env) bool {
		_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Image: noImage})
		e.empty()
		if runtime.Class(err) == runtime.ErrUnsupported {
			return false
		}
		e.Wrong("an image that is not there", err, runtime.ErrNotFound)
		return true
	},
	Disk: func(e *env) bool {
		return e.canCreate(&runtime.SandboxConfig{CodebasePath: e.dir(), Resources: runtime.Resources{Disk: 1 << 20}})
	},
	UserNamespace: func(e *env) bool {
		host, err := os.Readlink("/proc/self/ns/user")
		e.OK(err)
		return e.out(e.start(nil).ID, "readlink /proc/self/ns/user") != host+"\n"
	},
	Limits: func(e *env) bool {
		return e.canCreate(&runtime.SandboxConfig{Resources: runtime.Resources{Memory: 1 << 30, CPUs: 1, PIDs: 100}})
	},
	OutOfMemory: nil, // LimitMemory tells
	Lifetime: func(e *env) bool {
		return e.supported(e.rt.Touch(e.Ctx, runtime.NewID())) || e.canCreate(&runtime.SandboxConfig{TTL: late}) || e.canCreate(&runtime.SandboxConfig{IdleTimeout: late})
	},
	Ports: func(e *env) bool {
		_, err := e.rt.DialPort(e.Ctx, runtime.NewID(), 1)
		return e.supported(err) || e.canCreate(&runtime.SandboxConfig{Publish: []runtime.Publish{{Local: 1, Port: 1}}})
	},
	Pause: func(e *env) bool {
		return e.canCreate(pausable(nil)) && e.supported(e.rt.Pause(e.Ctx, e.start(pausable(nil)).ID))
	},
	CopyOnWrite: func(e *env) bool {
		_, is := e.rt.(runtime.Workspace)
		return is
	},
	HostKernel: func(e *env) bool { return e.sameKernel(e.start(nil).ID) },
	RefusedFifos: func(e *env) bool {
		s := e.start(&runtime.SandboxConfig{CodebasePath: e.dir(), Permissions: rules("**=write", "*.none=none")})
		return e.sh(s.ID, "mkfifo fifo.none").ExitCode != 0
	},
}

// noImage is an image that does not exist.
const noImage = "registry.invalid/none:latest"

// canCreate reports whether such a sandbox can be made.
func (e *env) canCreate(c *runtime.SandboxConfig) bool {
	_, err := e.rt.Create(e.Ctx, c)
	if err != nil {
		e.empty()
	}
	return e.supported(err)
}

// supported reports whether err is something else than ErrUnsupported.
func (e *env) supported(err error) bool {
	if err != nil && !errors.Is(err, runtime.ErrUnsupported) {
		e.Errorf("%v, want %v", err, runtime.ErrUnsupported)
	}
	return err == nil
}

// rules parses PATTERN=LEVEL; each one outranks those before it.
func rules(patterns ...string) []perm.Rule {
	var all []perm.Rule
	for i, p := range patterns {
		r, err := perm.ParseRule(p)
		if err != nil {
			panic(err)
		}
		r.Priority = i
		all = append(all, r)
	}
	return all
}

// open is a codebase whose rules allow every change.
func (e *env) open(dir string) *runtime.SandboxConfig {
	return &runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=write")}
}

// dir makes an empty directory that every user can reach: a runtime may drop
// privileges.
func (e *env) dir() string {
	e.Helper()
	dir := e.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			e.Fatal(err)
		}
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		e.Fatal(err)
	}
	return dir
}

// write makes or replaces a file on the host, and its directory.
func (e *env) write(path, content string) {
	e.Helper()
	e.OK(os.MkdirAll(filepath.Dir(path), 0o755))
	e.OK(os.WriteFile(path, []byte(content), 0o644))
	e.OK(os.Chmod(filepath.Dir(path), 0o755)) // whatever the umask
	e.OK(os.Chmod(path, 0o644))
}

// read returns the content of a file on the host.
func (e *env) read(path string) string {
	e.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		e.Error(err)
	}
	return string(b)
}
