package launch

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// GuestPath is PID 1's program inside every sandbox. Programs inside may run it
	// too: it packs and unpacks files for cp.
	GuestPath = "/run/wolffia/guest"
	// FilterPath is the seccomp filter, for a PID 1 that installs it by itself.
	FilterPath = "/run/wolffia/seccomp"
	// GitPath is a directory with git's configuration of the system level, in the file
	// config.
	GitPath = "/run/wolffia/git"
	// GitDirsPath is, with the filter static, a directory with what the sandbox's own git
	// directories show of the host.
	GitDirsPath = "/run/wolffia/gitdirs"

	// GitMonitor begins that configuration where git inside asks the tree server what has changed:
	// see package gitask, git-config(1).
	GitMonitor = "[core]\n\tfsmonitor = " + GitPath + "/monitor\n\tfsmonitorHookVersion = 2\n\tuntrackedCache = true\n"
	// GitMinimal, too, has git take a file for unchanged whatever its owner and inode number: it
	// compares times and sizes only.
	GitMinimal = "[core]\n\tcheckStat = minimal\n"
	// HandPath is a directory in which the shim makes a unix socket, to which PID 1 connects
	// before any other process starts: wire.NetHand. Then it is empty.
	HandPath = "/run/wolffia/hand"
	// BecomeArg is the first argument of that program to become another user: a user and a command
	// follow. Sudo is its other name, in SudoDir, which is the last of PATH with root inside.
	BecomeArg = "as"
	// ReplicaArg is the first argument of that program to serve a copy of the codebase: see package
	// internal/replica.
	ReplicaArg = "replica"
	Sudo       = "sudo"
	SudoDir    = "/run/wolffia/bin"
	// SessionsPath is an empty directory of PID 1's own, for its shell sessions, which
	// so do not depend on room in /tmp. The name is short since each command sent to a
	// shell contains it.
	SessionsPath = "/run/.w"
	// ShmSize is the usual size of /dev/shm, in bytes.
	ShmSize = 64 << 20
)

// A Kind tells what a [Mount] mounts.
type Kind int

// The kinds of mounts.
const (
	Bind    Kind = iota // a file or directory of the host, with all that is mounted in it
	Filter              // a Bind of the seccomp filter, in a file that the backend writes
	Cover               // a read-only Bind over a part of /proc, where that is the host kernel's
	Symlink             // a symbolic link; Source is its text
	Proc
	Dev // the usual devices, in a tmpfs
	Shm // a tmpfs in Dev
	Sys
	Tmpfs // owned by the sandbox's user, or by root if Mode is 1777
	// Parent is a directory in the home directory with mounts below, which the user may write
	// to: a Tmpfs where the places to mount on would be root's.
	Parent
)

// A Mount is one entry of a sandbox's mount table.
type Mount struct {
	Kind     Kind
	Source   string // Bind, Filter, Cover: a path on the host
	Target   string // absolute, inside
	Writable bool   // Bind
	Mode     uint32 // Tmpfs, Parent, Shm: as for chmod(2)
	Size     int64  // Tmpfs, Parent, Shm, Dev: the most that it can hold, in bytes; 0 is no limit
	// Names is, of a Tmpfs or Shm, the most files, directories and links that it can hold, the top
	// included; 0 is no limit. It is for backends whose limit of memory may be one of processes
	// only: the kernel's memory for names belongs to no process.
	Names int64
}

// Mounts returns everything that is in a sandbox's root directory, in the order in which it is
// mounted. No two are at the same place. A backend applies each entry, or has a reason in a
// comment.
func (s *Spec) Mounts() []Mount {
	size := s.sizes()
	all := slices.Clone(s.Root)
	for _, name := range s.codebaseNames() {
		if !s.madeInside(name) {
			all = append(all, Mount{Kind: Symlink, Source: s.Config.MountPointOrDefault(), Target: name})
		}
	}
	all = append(all, Mount{Kind: Proc, Target: "/proc"}, Mount{Kind: Dev, Target: "/dev", Size: size.dev})
	for _, m := range s.Covers {
		all = append(all, Mount{Kind: Cover, Source: m.Source, Target: m.Target})
	}
	if s.Etc != "" {
		all = append(all, Mount{Source: s.Etc, Target: "/etc"})
	}
	all = append(all,
		Mount{Kind: Shm, Target: "/dev/shm", Mode: 0o1777, Size: size.shm},
		Mount{Kind: Sys, Target: "/sys"})
	if s.Config == nil || !s.Config.BareImage {
		all = append(all, Mount{Kind: Tmpfs, Target: "/tmp", Mode: 0o1777, Size: size.tmp})
	}
	if s.Home != "" {
		all = append(all, Mount{Kind: Tmpfs, Target: s.Home, Mode: 0o700, Size: size.home})
	}
	named := len(all)
	for _, target := range s.parents() {
		all = append(all, Mount{Kind: Parent, Target: target, Mode: 0o755, Size: size.scratch})
	}
	for _, target := range s.Scratch {
		all = append(all, Mount{Kind: Tmpfs, Target: target, Mode: 0o755, Size: size.scratch})
	}
	for _, m := range s.Binds {
		all = append(all, Mount{Source: m.Source, Target: m.Target, Writable: m.Writable})
	}
	// A mount hides what was mounted below its target before.
	slices.SortStableFunc(all[named:], func(a, b Mount) int { return cmp.Compare(depth(a.Target), depth(b.Target)) })
	// These come last, so that no mount of the user's can cover them.
	if s.Git != "" {
		all = append(all, Mount{Source: s.Git, Target: GitPath})
	}
	if s.Hand != "" {
		all = append(all, Mount{Source: s.Hand, Target: HandPath})
	}
	all = lastAtEach(append(all,
		Mount{Kind: Tmpfs, Target: SessionsPath, Mode: 0o700, Size: size.sessions},
		Mount{Source: s.Guest, Target: GuestPath},
		Mount{Kind: Filter, Source: s.FilterFile(), Target: FilterPath}))
	if s.memory() > 0 {
		limitNames(all)
	}
	return all
}

// codebaseNames returns the other names of the codebase.
func (s *Spec) codebaseNames() []string {
	if s.Config == nil {
		return nil
	}
	return s.Config.CodebaseNames
}

// madeInside reports whether a name is in a directory that is mounted, so that only PID 1 can make
// it there.
func (s *Spec) madeInside(name string) bool {
	dirs := append([]string{"/tmp"}, s.Scratch...)
	if s.Home != "" {
		dirs = append(dirs, s.Home)
	}
	for _, m := range s.Binds {
		dirs = append(dirs, m.Target)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

// bytesPerName is how many bytes of a file system in memory allow one name. A name takes 1 KiB of
// the kernel's memory (the inode and its name), which is not in the file system's size, and a file
// with content takes a page.
const bytesPerName = 2048

// limitNames sets the limits of names of the file systems in memory.
func limitNames(mounts []Mount) {
	for i := range mounts {
		if m := &mounts[i]; m.Kind == Tmpfs || m.Kind == Shm {
			m.Names = m.Size / bytesPerName
		}
	}
}

// lastAtEach returns mounts without those that a later one at the same place hides, such as the
// temporary home directory behind one that stays. gVisor mounts those at one place in any order
// (it sorts by the length of the path, not stably).
func lastAtEach(mounts []Mount) []Mount {
	last := map[string]int{}
	for i := range mounts {
		last[mounts[i].Target] = i
	}
	kept := mounts[:0]
	for i, m := range mounts {
		if last[m.Target] == i {
			kept = append(kept, m)
		}
	}
	return kept
}

// depth returns the number of parts of an absolute path.
func depth(target string) int { return strings.Count(target, "/") }

// parents returns the directories between the home directory and what is mounted in it, and those
// in it or in /tmp in which PID 1 makes a link, sorted.
func (s *Spec) parents() []string {
	targets := slices.Clone(s.Scratch)
	for _, m := range s.Binds {
		targets = append(targets, m.Target)
	}
	mounted := func(dir string) bool {
		return slices.ContainsFunc(targets, func(t string) bool { return dir == t || strings.HasPrefix(dir, t+"/") })
	}
	var all []string
	above := func(name string, tops ...string) {
		in := func(dir string) bool {
			return slices.ContainsFunc(tops, func(top string) bool { return top != "" && strings.HasPrefix(dir, top+"/") })
		}
		for dir := path.Dir(name); in(dir) && !mounted(dir); dir = path.Dir(dir) {
			all = append(all, dir)
		}
	}
	for _, t := range targets {
		above(t, s.Home)
	}
	for _, name := range s.codebaseNames() {
		if s.madeInside(name) {
			above(name, s.Home, "/tmp")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// FilterFile returns where on the host a backend writes the seccomp filter that is to
// be mounted.
func (s *Spec) FilterFile() string { return filepath.Join(s.Dir, "seccomp") }

// memory returns the sandbox's limit of memory in bytes; 0 is no limit.
func (s *Spec) memory() int64 {
	if s.Config == nil {
		return 0
	}
	return s.Config.Resources.Memory
}

// sizes are the sizes of the file systems in memory, in bytes; 0 is no limit.
type sizes struct{ tmp, home, scratch, sessions, shm, dev int64 }

// sizes returns the sizes for the sandbox's limit of memory. Files in memory count as
// the sandbox's memory, and killing a process does not free them: so with a limit,
// they can fill a part of it only.
func (s *Spec) sizes() sizes {
	const (
		sessions = 256 << 20 // commands, and the state of shells
		dev      = 1 << 20   // names only
	)
	limit := s.memory()
	if limit <= 0 {
		return sizes{sessions: sessions}
	}
	return sizes{
		tmp: limit / 4, home: limit / 8, scratch: limit / 8,
		sessions: min(sessions, limit/16), shm: min(ShmSize, limit/16), dev: min(dev, limit/16),
	}
}
