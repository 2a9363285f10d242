package launch

import "wolffia/runtime"

// A Backend is a Launcher with what the processes that start a sandbox must know of it. Nothing
// outside of its package asks which backend it is: Place and Can answer.
type Backend struct {
	Launcher
	Place Place
	Can   Capabilities
	// Platforms are the permitted values of SandboxConfig.Platform.
	Platforms []string
	// Program finds the launcher's program on the host, before each start; beside is
	// the directory that wolffia is in. nil: the launcher finds it by itself.
	Program func(beside string) (string, error)
	// Keeper is the name of the keeper's program, one of wolffia's own, which is started beside
	// the shim (see package keeper); empty with BesideShim.
	Keeper string
	// Complete fills in the parts of a configuration that depend on the caller's environment, the
	// address of the engine among them. nil with BesideShim.
	Complete func(*runtime.SandboxConfig) error
	// Engine returns the part of a completed configuration that names the engine, and the engine's
	// address, a URL. nil with BesideShim.
	Engine func(*runtime.SandboxConfig) (engine runtime.SandboxConfig, address string)
	// StageArg is the first argument with which the launcher starts wolffia again, to
	// call Stage; empty if it does not.
	StageArg string
	Stage    func() error
}

// Names returns the names of backends.
func Names(list []Backend) []string {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = b.Name()
	}
	return names
}

// A Place tells where PID 1 of a backend's sandboxes runs, and so which process starts it.
type Place int

const (
	// BesideShim: PID 1 is a descendant of the shim, which starts the launcher's program.
	BesideShim Place = iota
	// InEngine: an engine of this host starts PID 1 on request of the keeper, and mounts
	// directories of this host.
	InEngine
	// Elsewhere: PID 1 runs on another machine, which the keeper asks for. No directory of this
	// host can be shown inside.
	Elsewhere
)

// Capabilities are a set of what the sandboxes of a backend have, one bit for each question that
// is asked of a backend. The zero value has none: then the host is protected most, and the backend
// does by itself what it can.
type Capabilities uint32

const (
	// ShimMounts: the sandbox is given what the shim has mounted in its own mount namespace, and
	// no mount outlives the shim. Without it, an engine mounts by paths of the host, after the
	// shim or the keeper has checked them.
	ShimMounts Capabilities = 1 << iota
	// HostCgroup: one control group of the host can hold all processes of the sandbox. Without it,
	// the backend enforces the limits of SandboxConfig.Resources.
	HostCgroup
	// StoreImages: the sandbox runs images of the image store. Without it, the backend has images
	// of its own.
	StoreImages
	// OwnKernel: system calls are answered by a kernel of the sandbox's own. It has its own /proc,
	// connects to no unix socket of the host, and counts processes by itself.
	OwnKernel
	// HostInodes: files of the codebase have the same inode numbers inside as on the host.
	HostInodes
	// HostProcesses: PID 1 and its descendants are processes that the shim can see, with
	// namespaces that it can enter.
	HostProcesses
	// PassClients: PID 1 can be given Spec.Clients.
	PassClients
	// RootInside: programs of the sandbox can be root (SandboxConfig.Root).
	RootInside
	// KeepsMemory: the memory of all processes can be kept, and restored: Instance.Save, Spec.Memory.
	KeepsMemory
)

// Has reports whether the set has all of some capabilities.
func (c Capabilities) Has(all Capabilities) bool { return c&all == all }
