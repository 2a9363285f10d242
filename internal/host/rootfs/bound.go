package rootfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Neither a read-only mount nor a network namespace prevents connect(2) to a unix socket
// with a path (unix(7)): a program on the host that listens below a mounted directory
// would serve a sandbox without a network.

// keepsSockets reports whether a sandbox must not see sockets on which the host listens.
// A kernel of its own connects to none of them.
func keepsSockets(b *boot.Params) bool {
	return b.Config.Network != runtime.NetworkHost && !b.Can.Has(launch.OwnKernel)
}

// A boundList is the result of listBound.
type boundList struct {
	sockets []bound
	err     error
}

// ListSockets lists the host's sockets in the background, which may take a millisecond.
func ListSockets(b *boot.Params) <-chan boundList {
	done := make(chan boundList, 1)
	if !keepsSockets(b) {
		done <- boundList{}
		return done
	}
	go func() { // ends with the list
		sockets, err := listBound()
		done <- boundList{sockets, err}
	}()
	return done
}

// KeepSockets mounts EmptyDir over directories of the host in which a program listens on a
// socket, and returns an error if such a socket is in a mount that the user named.
func KeepSockets(b *boot.Params, spec *launch.Spec, list boundList) error {
	if !keepsSockets(b) || list.err != nil {
		return list.err
	}
	if len(list.sockets) > 0 {
		covers, err := coverBound(shownOfHost(spec), list.sockets, EmptyDir(b))
		if err != nil {
			return err
		}
		spec.Binds = append(covers, spec.Binds...)
	}
	coverToolchains(b, spec, list.sockets)
	mounts := b.Config.Mounts
	if b.Config.Native() { // a tree server shows no socket of the host
		mounts = append(slices.Clone(mounts), runtime.Mount{Source: b.Config.CodebasePath, Target: b.Config.MountPointOrDefault()})
	}
	return checkBound(mounts, list.sockets)
}

// coverToolchains shows EmptyDir in the place of directories of toolchains in which a program
// of the host listens on a socket.
func coverToolchains(b *boot.Params, spec *launch.Spec, sockets []bound) {
	var hidden []string // directories inside
	last := -1
	for i := range spec.Binds {
		if !spec.Binds[i].Toolchain {
			continue
		}
		last = i
		of := slices.IndexFunc(b.Config.Mounts, func(m runtime.Mount) bool { return m.Toolchain && m.Target == spec.Binds[i].Target })
		for _, s := range sockets {
			if target, ok := inside(b.Config.Mounts[of], s.dir); ok && s.listens() {
				hidden = append(hidden, target)
			}
		}
	}
	slices.Sort(hidden)
	var covers []runtime.Mount
	for i, target := range hidden {
		if slices.ContainsFunc(hidden[:i], func(dir string) bool { _, in := inside(runtime.Mount{Source: dir}, target); return in }) {
			continue
		}
		if i := slices.IndexFunc(spec.Binds, func(m runtime.Mount) bool { return m.Toolchain && m.Target == target }); i >= 0 {
			spec.Binds[i].Source = EmptyDir(b)
			continue
		}
		covers = append(covers, runtime.Mount{Source: EmptyDir(b), Target: target})
	}
	spec.Binds = slices.Insert(spec.Binds, last+1, covers...)
}

// shownOfHost returns the mounts of the host that every sandbox has, with symbolic links
// in their sources resolved.
func shownOfHost(spec *launch.Spec) []runtime.Mount {
	var shown []runtime.Mount
	show := func(source, target string) {
		if real, err := filepath.EvalSymlinks(source); err == nil {
			source = real
		}
		shown = append(shown, runtime.Mount{Source: source, Target: target})
	}
	for _, m := range spec.Root {
		if m.Kind == launch.Bind {
			show(m.Source, m.Target)
		}
	}
	for _, dir := range spec.HostEtc {
		show("/etc/"+dir, "/etc/"+dir)
	}
	for _, dir := range spec.HostVar {
		show(dir, dir)
	}
	return shown
}

// A bound is a unix socket of the host. dir has no symbolic links.
type bound struct{ dir, name string }

func (b bound) path() string { return filepath.Join(b.dir, b.name) }

// walkBound reads walkNames names in walkDepth levels of a directory. Deeper sockets are
// found in /proc/net/unix only.
const (
	walkNames = 4096
	walkDepth = 3
)

// listBound returns the sockets in this network namespace that are bound to an absolute
// path.
func listBound() ([]bound, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "list the host's unix sockets: %w", err)
	}
	resolved := map[string]string{}
	var list []bound
	for _, path := range boundPaths(table) {
		dir, name := filepath.Split(path)
		real, known := resolved[dir]
		if !known {
			at, err := openPath(dir)
			switch {
			case err == nil:
				real, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(at.Fd())))
				_ = at.Close()
			case exhausted(err):
				return nil, runtime.Errorf(runtime.ErrUnavailable, "list the host's unix sockets: %s: %w", dir, err)
			}
			resolved[dir] = real
		}
		if real != "" { // else neither the shim nor the sandbox can reach it
			list = append(list, bound{real, name})
		}
	}
	return list, nil
}

// boundPaths returns the absolute paths in the content of /proc/net/unix, each once
// (proc_net(5)). They are not reliable: a path may contain a line break.
func boundPaths(table []byte) []string {
	var paths []string
	for line := range bytes.Lines(table) {
		// Seven columns without a slash come first.
		if i := bytes.IndexByte(line, '/'); i > 0 && len(bytes.Fields(line[:i])) == 7 {
			paths = append(paths, filepath.Clean(string(bytes.TrimSuffix(line[i:], []byte("\n")))))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// exhausted reports whether an error says that this process has no descriptor or memory left, and so
// nothing about the file.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// openPath opens a directory with O_PATH.
func openPath(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// listens reports whether this process could connect to a socket; true if that cannot be
// found out. The listener does not notice: connect(2) of a datagram socket to a stream
// socket sends nothing, and fails with EPROTOTYPE if a program listens, else with
// ECONNREFUSED (unix(7)).
func (b bound) listens() bool {
	dir, err := openPath(b.dir)
	if err != nil {
		return exhausted(err)
	}
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + b.name})
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// inside returns the path inside the sandbox of the host's path, if the mount shows it.
func inside(m runtime.Mount, path string) (target string, ok bool) {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m.Source, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return filepath.Join(m.Target, rest), true
}

// coverBound returns mounts of the directory empty over the directories below shown in
// which a program listens on a socket.
func coverBound(shown []runtime.Mount, sockets []bound, empty string) ([]runtime.Mount, error) {
	var covers []runtime.Mount
	for _, s := range sockets {
		for _, m := range shown {
			target, ok := inside(m, s.dir)
			switch {
			case !ok || slices.ContainsFunc(covers, func(c runtime.Mount) bool { _, ok := inside(runtime.Mount{Source: c.Target}, target); return ok }):
			case !s.listens():
			case target == m.Target:
				return nil, runtime.Errorf(runtime.ErrUnavailable, "unix socket %s is in a directory that every sandbox sees: move it, or use --network host or --image", s.path())
			default:
				covers = append(covers, runtime.Mount{Source: empty, Target: target})
			}
		}
	}
	return covers, nil
}

// checkBound returns an error if a program listens on a socket in one of mounts, other than
// toolchains. A socket that is the source of a mount is permitted.
func checkBound(mounts []runtime.Mount, sockets []bound) error {
	named := func(path string) bool {
		return slices.ContainsFunc(mounts, func(m runtime.Mount) bool { return m.Source == path })
	}
	for _, m := range mounts {
		if m.Toolchain {
			continue
		}
		found, err := walkBound(m.Source)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "look for unix sockets in mount %s: %w", m.Source, err)
		}
		for _, s := range sockets {
			if _, ok := inside(m, s.dir); ok {
				found = append(found, s)
			}
		}
		for _, s := range found {
			if named(s.path()) || !s.listens() {
				continue
			}
			return runtime.Errorf(runtime.ErrInvalid, "mount %s: it contains the unix socket %s, by which programs inside could reach a program on the host without a network: mount less of it, allow this socket with --mount %s, or use --network host", m.Source, s.path(), s.path())
		}
	}
	return nil
}

// walkBound returns the sockets in the topmost levels of a directory. It skips directories
// that it cannot list, which the sandbox cannot list either.
func walkBound(dir string) (found []bound, err error) {
	type level struct {
		dir   string
		depth int
	}
	names := 0
	for queue := []level{{dir, 1}}; len(queue) > 0 && names < walkNames; queue = queue[1:] {
		at := queue[0]
		var entries []fs.DirEntry
		f, err := os.OpenFile(at.dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		if err == nil {
			entries, err = f.ReadDir(walkNames - names)
			_ = f.Close()
		}
		if exhausted(err) {
			return nil, err
		}
		names += len(entries)
		for _, e := range entries {
			switch {
			case e.Type()&fs.ModeSocket != 0:
				found = append(found, bound{at.dir, e.Name()})
			case e.IsDir() && at.depth < walkDepth:
				queue = append(queue, level{filepath.Join(at.dir, e.Name()), at.depth + 1})
			}
		}
	}
	return found, nil
}
