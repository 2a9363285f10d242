package probe

import (
	"context"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/cause"
	"wolffia/internal/sys/fusermount"
	"wolffia/internal/sys/hostpath"
)

func probeFuse(_ context.Context, h *host) Result { return decideFuse(fusermount.CheckDevice(), h) }

// decideFuse returns the result for the error of opening the device, or nil.
func decideFuse(err error, h *host) (r Result) {
	if err == nil {
		return Result{OK: true, Found: "/dev/fuse can be opened"}
	}
	r.Warn(&cause.Facts{Host: h, Symptom: cause.Fuse, Said: err.Error()})
	return r
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
		return Result{OK: h.Root, Code: "fusermount-missing", Problem: "fusermount3 is not installed, or not in PATH", Fix: h.Install("fuse3")}
	}
	r := Result{Found: firstLine(f.version) + " at " + f.path}
	switch {
	case h.Root: // needs no helper program
		r.OK = true
	case !f.setuid:
		r.Code, r.Problem = "fusermount-setuid", f.path+" is not setuid root"
		r.Fix = h.Sudo("chown root "+f.path, "chmod 4755 "+f.path)
	case !f.others:
		r.Code, r.Problem = "fusermount-others", "user_allow_other is not set in /etc/fuse.conf, so that Docker, as root, could not enter the mount"
		r.Fix = h.Add("user_allow_other", "/etc/fuse.conf")
	case f.stays != nil:
		r.Code, r.Problem = "fusermount-unmount", f.stays.Error()
		r.Fix = h.Sudo(fusermount.FixUnmount)
	default:
		r.OK = true
	}
	return r
}
