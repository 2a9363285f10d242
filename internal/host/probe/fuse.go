package probe

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/fusermount"
	"wolffia/internal/sys/hostpath"
)

const fuseDevice = "/dev/fuse"

// fuseFacts are the facts about /dev/fuse.
type fuseFacts struct {
	open   error // of the device, to read and write
	closed bool  // root can, but the user that root drops to cannot
	module bool  // the kernel knows the file system
}

// errNotFuse says that a file of the device's name is another.
var errNotFuse = errors.New("is not the device of FUSE")

func probeFuse(_ context.Context, h *host) Result {
	var f fuseFacts
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if f.open = err; err == nil {
		// Root does not run sandboxes itself: the user that it drops to needs access.
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd) // no mount uses it: nothing happens
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(10, 229) {
			f.open = errNotFuse
		}
		f.closed = f.open == nil && unix.Geteuid() == 0 && st.Mode&0o006 != 0o006
	}
	for line := range strings.Lines(readFile("/proc/filesystems")) {
		fields := strings.Fields(line)
		f.module = f.module || len(fields) > 0 && fields[len(fields)-1] == "fuse"
	}
	return decideFuse(f, h)
}

// decideFuse returns the result for the facts.
func decideFuse(f fuseFacts, h *host) Result {
	load := h.sudo("modprobe fuse") + "\n" + h.put("fuse", "/etc/modules-load.d/fuse.conf")
	open := h.sudo("chmod 666 "+fuseDevice) + "\n" +
		h.put(`KERNEL=="fuse", MODE="0666"`, "/etc/udev/rules.d/99-wolffia-fuse.rules")
	switch {
	case f.closed:
		return Result{Found: fuseDevice, Problem: "root may open " + fuseDevice + ", but not the user that root runs sandboxes as", Fix: open}
	case f.open == nil:
		return Result{OK: true, Found: fuseDevice + " can be opened"}
	case h.container != "":
		return Result{Problem: "this container may not use " + fuseDevice, Fix: h.restart()}
	case errors.Is(f.open, errNotFuse):
		return Result{Found: fuseDevice, Problem: fuseDevice + " " + errNotFuse.Error(), Fix: h.sudo("rm "+fuseDevice, "mknod -m 666 "+fuseDevice+" c 10 229")}
	case errors.Is(f.open, fs.ErrNotExist) && f.module:
		return Result{
			Problem: "the kernel has FUSE, but " + fuseDevice + " does not exist",
			Fix:     h.sudo("mknod -m 666 " + fuseDevice + " c 10 229"),
		}
	case errors.Is(f.open, fs.ErrNotExist), errors.Is(f.open, syscall.ENXIO), errors.Is(f.open, syscall.ENODEV):
		return Result{Problem: "the kernel module fuse is not loaded", Fix: load}
	case errors.Is(f.open, fs.ErrPermission):
		return Result{Found: fuseDevice, Problem: "this user may not open " + fuseDevice, Fix: open}
	}
	return Result{Problem: fuseDevice + ": " + f.open.Error(), Fix: load}
}

// fusermountFacts are the facts about the helper that mounts for a user in the host's
// namespace.
type fusermountFacts struct {
	path    string // "" if it is not installed
	version string
	setuid  bool  // and root's
	others  bool  // user_allow_other is set in fuse.conf
	stays   error // why a user could not unmount again; nil if they could
}

func probeFusermount(ctx context.Context, h *host) Result {
	var f fusermountFacts
	if path, err := hostpath.Look("fusermount3"); err == nil {
		f.path = path
		var st unix.Stat_t
		f.setuid = unix.Stat(f.path, &st) == nil && st.Mode&unix.S_ISUID != 0 && st.Uid == 0
		f.version, _ = output(ctx, exec.CommandContext(ctx, f.path, "--version"))
	}
	for line := range strings.Lines(readFile("/etc/fuse.conf")) {
		f.others = f.others || strings.TrimSpace(line) == "user_allow_other"
	}
	f.stays = fusermount.CanUnmount()
	return decideFusermount(f, h)
}

// decideFusermount returns the result for the facts.
func decideFusermount(f fusermountFacts, h *host) Result {
	if f.path == "" {
		return Result{OK: h.root, Problem: "fusermount3 is not installed, or not in PATH", Fix: h.install("fuse3")}
	}
	r := Result{Found: firstLine(f.version) + " at " + f.path}
	switch {
	case h.root: // needs no helper program
		r.OK = true
	case !f.setuid:
		r.Problem = f.path + " is not setuid root"
		r.Fix = h.sudo("chown root "+f.path, "chmod 4755 "+f.path)
	case !f.others:
		r.Problem = "user_allow_other is not set in /etc/fuse.conf, so that Docker, as root, could not enter the mount"
		r.Fix = h.add("user_allow_other", "/etc/fuse.conf")
	case f.stays != nil:
		r.Problem = f.stays.Error()
		r.Fix = h.sudo(fusermount.FixUnmount)
	default:
		r.OK = true
	}
	return r
}
