package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"wolffia/internal/pathname"
	"wolffia/internal/sys/cleanup"
	"wolffia/internal/sys/proc"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// An engine mounts by path, in a root directory and in directories whose links an image or a
// sandbox has made: a link moves a mount. And it mounts what its own mount namespace has at a
// path. So the mount table of the started container is compared with what was requested, before
// anyone talks to PID 1. No process inside can change the table.

// A mountLine is one mount of a process (proc_pid_mountinfo(5)). Paths are escaped as there.
type mountLine struct {
	id, parent int
	device     string // of the file system
	root       string // the mount's root in the file system
	place      string // where it is mounted
}

// mountLines reads the text of mountinfo. Lines that are not valid are left out.
func mountLines(text string) []mountLine {
	var lines []mountLine
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		id, err := strconv.Atoi(f[0])
		parent, perr := strconv.Atoi(f[1])
		if err == nil && perr == nil {
			lines = append(lines, mountLine{id, parent, f[2], f[3], f[4]})
		}
	}
	return lines
}

// visible returns the mount that is used for a path without links, nil if it cannot be told.
func visible(lines []mountLine, path string) *mountLine {
	is := func(id int) func(mountLine) bool { return func(l mountLine) bool { return l.id == id } }
	at := slices.IndexFunc(lines, func(l mountLine) bool { return !slices.ContainsFunc(lines, is(l.parent)) })
	for range lines { // a way down has each mount once at most
		next := -1
		for i := range lines {
			if at >= 0 && i != at && lines[i].parent == lines[at].id && pathname.Within(path, lines[i].place) &&
				(next < 0 || len(lines[i].place) < len(lines[next].place)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		at = next
	}
	if at < 0 {
		return nil
	}
	return &lines[at]
}

// A wanted is a mount that the engine was asked for.
type wanted struct {
	source, target string
	// source may have symbolic links; else it was resolved, and one is an attack
	links        bool
	device, root string // of the source, as in a mountLine
}

// A misplacement says what is wrong with a mount.
type misplacement int

const (
	placed misplacement = iota
	moved               // it is at another place, or hidden by another mount
	other               // another file or directory is mounted there
)

// judge compares a wanted mount with the mount table of a container.
func judge(inside []mountLine, w *wanted) misplacement {
	m := visible(inside, octal(w.target))
	switch {
	case m == nil || m.place != octal(w.target):
		return moved
	case m.device != w.device || m.root != w.root:
		return other
	}
	return placed
}

// sourceOf returns device and root of what is at a path on the host, for the mount table own
// of this process. With links they are followed, else they are an error. It asks nothing of a
// file system that is mounted there.
func sourceOf(own []mountLine, source string, links bool) (device, root string, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if !links {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, source, how)
	if err != nil {
		return "", "", &fs.PathError{Op: "open", Path: source, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil {
		return "", "", &fs.PathError{Op: "statx", Path: source, Err: err}
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", "", err
	}
	i := slices.IndexFunc(own, func(l mountLine) bool { return uint64(l.id) == st.Mnt_id })
	if st.Mask&unix.STATX_MNT_ID == 0 || i < 0 || !pathname.Within(octal(name), own[i].place) {
		return "", "", errors.New(source + " is in no mount of this process")
	}
	return own[i].device, path.Join(own[i].root, strings.TrimPrefix(octal(name), own[i].place)), nil
}

// checkMounts returns an error if a mount of a container is not what the engine was asked for when
// it created the container. It is no error if PID 1 has ended. It keeps a descriptor of PID 1.
func (e *Engine) checkMounts(ctx context.Context, spec *launch.Spec, id string) (err error) {
	r, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return e.explain("look at the container", err)
	}
	state := r.Container.State
	if state != nil && !state.Running && !e.podman.Load() {
		return nil
	}
	if state == nil || state.Pid <= 0 {
		return runtime.Errorf(runtime.ErrUnavailable, "the engine at %s does not report the container's process", e.config.Docker.Host)
	}
	all, err := wants(spec, r.Container.Mounts)
	if err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	pid1, text, err := mountsOf(state.Pid)
	if err != nil && e.stopped(ctx, id) {
		return nil
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "look at the container's mounts, which needs an engine in wolffia's PID namespace and a /proc that shows all processes: %w", err)
	}
	var undo cleanup.Stack
	defer undo.Unwind(&err)
	undo.Add(func() error { return unix.Close(pid1) })
	lines, inside := mountLines(string(own)), mountLines(text)
	for i := range all {
		w := &all[i]
		if w.device, w.root, err = sourceOf(lines, w.source, w.links); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "mount on %s: %w", w.target, err)
		}
		if err := e.refuse(judge(inside, w), w); err != nil {
			return err
		}
	}
	undo.Release()
	e.pid1 = pid1 // the sandbox's own filter is mounted there: it is no other process
	return nil
}

// mountsOf returns a pidfd of a process, and its mount table.
func mountsOf(pid int) (pidfd int, text string, err error) {
	pidfd, err = unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, "", fmt.Errorf("process %d: %w", pid, err)
	}
	var undo cleanup.Stack
	defer undo.Unwind(&err)
	undo.Add(func() error { return unix.Close(pidfd) })
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return -1, "", err
	}
	// the number may be another's since
	if dead, err := proc.AwaitDeath(pidfd, time.Time{}); dead || err != nil {
		return -1, "", cmp.Or(err, error(unix.ESRCH))
	}
	undo.Release()
	return pidfd, string(b), nil
}

// wants returns the binds among the mounts that an engine has recorded for a container. It is
// an error if one is missing that isolation depends on.
func wants(spec *launch.Spec, recorded []container.MountPoint) ([]wanted, error) {
	var all []wanted
	for i := range recorded {
		m := &recorded[i]
		if m.Type != mount.TypeBind {
			continue
		}
		named := m.Destination == spec.Config.MountPointOrDefault() && spec.Config.Native() ||
			slices.ContainsFunc(spec.Config.Mounts, func(n runtime.Mount) bool { return n.Target == m.Destination })
		all = append(all, wanted{source: m.Source, target: m.Destination, links: !named})
	}
	needed := []string{launch.GuestPath, launch.FilterPath}
	if spec.Config.CodebasePath != "" {
		needed = append(needed, spec.Config.MountPointOrDefault())
	}
	for _, target := range needed {
		if !slices.ContainsFunc(all, func(w wanted) bool { return w.target == target }) {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "the container has no mount on %s: remove the sandbox and create it again", target)
		}
	}
	return all, nil
}

// checkVolumes returns an error if a volume of the image, which an engine mounts without being
// asked to, would hide a part of what spec mounts. The container is not started yet.
func (e *Engine) checkVolumes(ctx context.Context, spec *launch.Spec, id string) error {
	r, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return e.explain("look at the container", err)
	}
	if volume, target := hidden(r.Container.Mounts, spec.Mounts()); volume != "" {
		return runtime.Errorf(runtime.ErrUnsupported, "image %s: its VOLUME %s would hide a part of %s: choose another place for that, or --runtime bwrap, which makes no volumes of an image's", e.config.Image, volume, target)
	}
	return nil
}

// hidden returns the first volume that an engine has recorded for a container that hides a part of
// one of mounts, and the target of that; empty if there is none: one below it, at the root, or in
// the place of a mount that the engine makes by itself. A mount in another volume hides the
// volume, and the engine leaves out a volume in the place of another mount.
func hidden(recorded []container.MountPoint, mounts []launch.Mount) (volume, target string) {
	for i := range recorded {
		v := &recorded[i]
		for _, m := range mounts {
			if v.Type != mount.TypeVolume || m.Kind == launch.Symlink {
				continue
			}
			engines := m.Kind == launch.Proc || m.Kind == launch.Dev || m.Kind == launch.Sys
			if v.Destination == "/" || v.Destination == m.Target && engines || v.Destination != m.Target && pathname.Within(v.Destination, m.Target) {
				return v.Destination, m.Target
			}
		}
	}
	return "", ""
}

// refuse returns the error for a misplacement, nil for none.
func (e *Engine) refuse(is misplacement, w *wanted) error {
	switch {
	case is == placed:
		return nil
	case is == moved:
		return runtime.Errorf(runtime.ErrConflict, "mount on %s: it is not there in the container, since a symbolic link of the image or of a mounted directory leads elsewhere, or another mount hides it: remove the link, or choose another place", w.target)
	case e.rootless && w.target == e.config.MountPointOrDefault():
		return runtime.Errorf(runtime.ErrUnsupported, "the rootless engine at %s does not see the codebase's mount: mounts are not shared with it; as root: mount --make-rshared /, then podman system migrate, and start its service again", e.config.Docker.Host)
	}
	return runtime.Errorf(runtime.ErrUnsupported, "mount on %s: the engine at %s has mounted something else than what wolffia sees at %s: if that path has not changed meanwhile, the engine is in a mount namespace of its own, as a snap is: run it in wolffia's", w.target, e.config.Docker.Host, w.source)
}

// octal escapes a path as mountinfo does.
func octal(path string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
}
