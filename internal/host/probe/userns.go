package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"wolffia/internal/sys/hostpath"
)

// usernsFacts are the facts about user namespaces.
type usernsFacts struct {
	start  error  // of starting a process in a new user and mount namespace
	mount  error  // of mounting a tmpfs there
	kernel bool   // the kernel has user namespaces
	max    string // user.max_user_namespaces, or ""
	clone  string // kernel.unprivileged_userns_clone, or ""; only Debian has it
	armor  string // kernel.apparmor_restrict_unprivileged_userns, or ""
}

func probeUserNS(ctx context.Context, h *host) Result {
	start, mount := tryUserNS(ctx)
	return decideUserNS(usernsFacts{
		start: start, mount: mount, kernel: exists("/proc/self/ns/user"),
		max:   strings.TrimSpace(readFile("/proc/sys/user/max_user_namespaces")),
		clone: strings.TrimSpace(readFile("/proc/sys/kernel/unprivileged_userns_clone")),
		armor: strings.TrimSpace(readFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")),
	}, h)
}

// tryUserNS runs mount(8) as root of a new user and mount namespace. The mount does not
// propagate: a mount namespace of another user namespace is a slave of the first, see
// mount_namespaces(7).
func tryUserNS(ctx context.Context) (start, mount error) {
	args := []string{"mount", "-n", "-t", "tmpfs", "tmpfs", "/proc"} // a directory everywhere
	path, err := hostpath.Look(args[0])
	if err != nil {
		args = []string{"true"} // tests only the namespaces
		if path, err = hostpath.Look(args[0]); err != nil {
			return fmt.Errorf("no program to start: %w", err), nil
		}
	}
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	text, err := output(ctx, cmd)
	if errors.As(err, new(*exec.ExitError)) {
		return nil, errors.New(firstLine(text))
	}
	return err, nil
}

// decideUserNS returns the result for the facts.
func decideUserNS(f usernsFacts, h *host) Result {
	if f.start == nil && f.mount == nil {
		found := "they work"
		if f.max != "" {
			found += ", at most " + f.max
		}
		return Result{OK: true, Found: found}
	}
	var r Result
	denied := errors.Is(f.start, syscall.EPERM) || errors.Is(f.start, syscall.EACCES) || f.start == nil
	switch {
	case !f.kernel:
		r.Problem = "the kernel is built without user namespaces"
		r.Fix = "# install a kernel with CONFIG_USER_NS=y"
	case f.max == "0":
		r.Problem = "user.max_user_namespaces is 0"
		r.Fix = h.sysctl("user.max_user_namespaces", "15000")
	case f.clone == "0" && !h.root && denied:
		r.Problem = "kernel.unprivileged_userns_clone is 0: only root may make user namespaces"
		r.Fix = h.sysctl("kernel.unprivileged_userns_clone", "1")
	case errors.Is(f.start, syscall.ENOSPC):
		r.Problem = "all user namespaces are in use, or this process is in a sandbox that allows no more"
		r.Fix = h.sysctl("user.max_user_namespaces", "100000")
	case h.container != "" && denied && f.start != nil:
		r.Problem = "this container's seccomp profile forbids user namespaces"
		r.Fix = h.restart()
	case h.container != "" && denied:
		r.Problem = "this container's security profile forbids mounts in user namespaces"
		r.Fix = h.restart()
	case f.armor == "1" && denied:
		r.Problem = "AppArmor lets only programs with a profile use user namespaces " +
			"(kernel.apparmor_restrict_unprivileged_userns is 1)"
		r.Fix = h.apparmor()
	case h.filtered && denied:
		r.Problem = "a seccomp filter on this process forbids user namespaces"
		r.Fix = "# run wolffia outside of this sandbox; in a container:\n" + h.restart()
	case f.start != nil && denied:
		r.Problem = fmt.Sprintf("user namespaces are not permitted (%v): in a chroot, or by a security module", f.start)
	case f.start != nil:
		r.Problem = fmt.Sprintf("a process in a user namespace cannot start: %v", f.start)
	default:
		r.Problem = fmt.Sprintf("mounts in a user namespace are not permitted: %v", f.mount)
	}
	return r
}

// sysctl returns the commands that set a kernel setting now and at every boot.
func (h *host) sysctl(name, value string) string {
	fix := h.sudo("sysctl -w "+name+"="+value) + "\n" +
		h.put(name+" = "+value, "/etc/sysctl.d/90-wolffia.conf")
	if h.container != "" {
		fix = "# on the host of this container:\n" + fix
	}
	return fix
}

// apparmor returns the commands that give this program, and its children, a profile that
// allows user namespaces and restricts nothing.
func (h *host) apparmor() string {
	const file = "/etc/apparmor.d/wolffia"
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return h.sudo("tee "+file+" >/dev/null <<'EOF'") + `
abi <abi/4.0>,
include <tunables/global>

profile wolffia "` + quote.Replace(h.program) + `" flags=(unconfined) {
  userns,
  include if exists <local/wolffia>
}
EOF
` + h.sudo("apparmor_parser -r "+file) + `
# or, for all programs: ` + h.sudo("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
}
