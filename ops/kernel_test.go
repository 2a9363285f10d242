package ops_test

import (
	"strings"
	"testing"

	"wolffia/ops"
)

func TestKernelHint(t *testing.T) {
	const namespaces, browser, root, owner = "user namespaces do not exist", "--no-sandbox", "there is no root inside, nor", "leave chown out"
	for output, want := range map[string]string{
		"unshare: unshare failed: Operation not permitted\n":                                      namespaces,
		"bwrap: No permissions to create new namespace, likely because the kernel does not allow": namespaces,
		"bwrap: Creating new namespace failed: Operation not permitted":                           namespaces,
		"cannot clone: Operation not permitted\nError: cannot re-exec process":                    namespaces,
		"error: cloning builder process: Operation not permitted":                                 namespaces,
		"fork/exec /proc/self/exe: operation not permitted":                                       namespaces,
		"nsenter: reassociate to namespace 'ns/user' failed: Operation not permitted":             namespaces,
		"[0101/1.2:FATAL:zygote_host_impl_linux.cc(127)] No usable sandbox! If you are running":   browser,
		"The SUID sandbox helper binary was found, but is not configured correctly.":              browser,
		"npm error Error: EACCES: permission denied, unlink '.husky/_/husky.sh'":                  "-e HUSKY=0",
		"cp: cannot create regular file '.husky/_/h': Permission denied":                          "-e HUSKY=0",
		"chown: changing ownership of 'f': Invalid argument":                                      owner,
		"Error: EINVAL: invalid argument, chown 'f'":                                              owner,
		"sh: 1: sudo: not found":                   root,
		"bash: line 1: useradd: command not found": root,
		"su: Critical error - immediate abort":     root,
		"E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?": root,
		"E: List directory /var/lib/apt/lists/partial is missing. - Acquire (2: No such file":      root,
		"dpkg: error: requested operation requires superuser privilege":                            root,
		"useradd: cannot lock /etc/passwd; try again later.":                                       root,
		"mount: /mnt: must be superuser to use mount.":                                             root,
		"sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.":   root,
		"System has not been booted with systemd as init system (PID 1). Can't operate.":           "start the program itself",
		"rm: cannot remove 'a': Operation not permitted\n":                                         "",
		"git clone failed: Permission denied\n":                                                    "",
		"main.go:3: pseudo: not found":                                                             "",
		"cloned it\nrm: cannot remove 'a': Operation not permitted":                                "",
		"assertion failed: the root element must be a list, .husky/pre-commit is fine":             "",
		"ping: socktype: SOCK_RAW\nping: socket: Operation not permitted":                          "try curl",
		"ping: unknown host a.example":                                                             "",
		"HTTP 403: you need permission; see namespaces in the handbook":                            "",
	} {
		got := ops.KernelHint(output, func() bool { return false })
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("KernelHint(%q): got %q, want %q in it", output, got, want)
		}
	}
}

func TestKernelHintOfRootInside(t *testing.T) {
	const privileges = "sudo and su work from root only"
	for output, want := range map[string]string{
		"Password: su: Authentication failure":                                                   privileges,
		"sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.": privileges,
		"become user root: only root can, and no program makes its caller root here":             privileges,
		"E: Unable to acquire the dpkg frontend lock, are you root?":                             privileges,
		"hostname: you must be root to change the host name":                                     "sets nothing of the kernel",
		"mknod: /n: Operation not permitted":                                                     "no devices",
		"mount: /mnt: permission denied.":                                                        "no mounts",
		"chown: changing ownership of 'f': Invalid argument":                                     "range of subordinate ids",
		"unshare: unshare failed: Operation not permitted":                                       "user namespaces do not exist",
		"bash: line 1: useradd: command not found":                                               "install its package",
		"rm: cannot remove 'a': Operation not permitted":                                         "",
	} {
		got := ops.KernelHint(output, func() bool { return true })
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("KernelHint(%q): got %q, want %q in it", output, got, want)
		}
	}
}
