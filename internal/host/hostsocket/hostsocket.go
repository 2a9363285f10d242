// Package hostsocket opens unix sockets of the host for a sandbox, but not those that control the
// host.
//
// Such a socket is recognised by its name, by being the same file as one at a usual path, and
// by the program that listens on it: a link, a mount or another name does not hide it.
package hostsocket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// names are the base names of sockets whose programs start processes on the host, or change
// it, for each client.
var names = []string{
	"docker.sock", "docker.raw.sock", "podman.sock", "containerd.sock", "containerd.sock.ttrpc", "crio.sock", "cri-dockerd.sock",
	"buildkitd.sock", "nerdctl.sock", "system_bus_socket", "libvirt-sock", "libvirt-sock-ro", "lxd.socket", "snapd.socket",
}

// paths are patterns of those of such sockets.
var paths = []string{
	"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
	"/run/buildkit/buildkitd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/snapd.socket",
	"/run/user/*/docker.sock", "/run/user/*/podman/podman.sock", "/run/user/*/bus", "/run/user/*/systemd/private",
}

// programs are the names of processes that listen on such sockets.
var programs = []string{
	"dockerd", "containerd", "podman", "crio", "cri-dockerd", "buildkitd", "dbus-daemon", "dbus-broker", "dbus-broker-lau", "libvirtd", "lxd", "snapd",
	"wolffia", "wolffia-docker", "wolffia-oci", "wolffia-serve", "wolffia-shim",
}

// Resolve returns the path of a socket without symbolic links. The error is of class
// ErrInvalid: the path is not a socket's or, unless force is set, it is one that controls the
// host.
func Resolve(path string, force bool) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", runtime.Errorf(runtime.ErrInvalid, "socket %s: %w", path, plain(err))
	}
	st, err := os.Stat(real)
	if err != nil {
		return "", runtime.Errorf(runtime.ErrInvalid, "socket %s: %w", path, plain(err))
	}
	if st.Mode().Type() != os.ModeSocket {
		return "", runtime.Errorf(runtime.ErrInvalid, "socket %s: it is not a socket", path)
	}
	if !force && controls(real, st) {
		return "", refused(path, controlsHost)
	}
	return real, nil
}

// controlsHost is why a socket is refused by its name or its file.
const controlsHost = "it controls the host"

// refused returns the error for a socket that controls the host.
func refused(path, why string) error {
	return runtime.Errorf(runtime.ErrInvalid, "socket %s: %s: a sandbox with it can do all that you can, and perhaps more; leave it out, or use --socket-force if that is what you want", path, why)
}

// plain drops the operation and the path that a *PathError repeats.
func plain(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// controls reports whether a socket is one that controls the host, by its name or its file.
func controls(path string, st os.FileInfo) bool {
	if slices.Contains(names, filepath.Base(path)) {
		return true
	}
	for _, pattern := range paths {
		all, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, p := range all {
			if other, err := os.Stat(p); err == nil && os.SameFile(st, other) {
				return true
			}
		}
	}
	return false
}

// Dial connects to a socket by its path without symbolic links, as [Resolve] has returned it. The
// socket is checked again, and by the program that listens. A link that was put into the path
// since, as by another sandbox, is not followed. The caller closes the connection.
func Dial(ctx context.Context, path string, force bool) (net.Conn, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "socket %s: %w", path, err)
	}
	socket := os.NewFile(uintptr(fd), path)
	defer socket.Close()
	st, err := socket.Stat()
	switch {
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "socket %s: %w", path, plain(err))
	case !force && controls(path, st):
		return nil, refused(path, controlsHost)
	}
	// unix(7): what is open, not the name
	conn, err := new(net.Dialer).DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	if !force {
		program, err := peer(conn.(*net.UnixConn))
		switch {
		case err != nil:
			err = runtime.Errorf(runtime.ErrUnavailable, "socket %s: which program listens there cannot be found out, and it may control the host: %w", path, err)
		case slices.Contains(programs, program):
			err = refused(path, "the program "+program+" listens there, which controls the host")
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// peer returns the name of the process that listened on the socket of a connection; empty if
// the process has ended.
func peer(conn *net.UnixConn) (string, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "", err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(cerr, err); err != nil {
		return "", err
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(int(cred.Pid)) + "/comm")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", nil // it has ended, and another process has its socket
	}
	if err != nil { // as without descriptors, which a program inside can have the shim use up
		return "", err
	}
	return strings.TrimSuffix(string(name), "\n"), nil
}
