package testenv

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
)

// namespaced is set in the process that InNamespace starts.
const namespaced = "WOLFFIA_TEST_NAMESPACED"

// InNamespace runs the calling test, which must not be a part of another, once
// more in a process with a user and mount namespace of its own, where it is root
// and may mount. There it returns true. Here it returns false when that has
// ended, and has failed t if it has failed.
func InNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaced) == t.Name() {
		return true
	}
	Need(t, probe.UserNamespaces)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+Exactly(t), "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), namespaced+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in a namespace: %v\n%s", err, out)
	}
	return false
}
