package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/cause"
)

func probeSeccomp(_ context.Context, h *host) Result {
	// Without a filter to install the kernel answers EFAULT if it has filters,
	// and EINVAL if it has none: seccomp(2), "Determining support".
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0)
	return decideSeccomp(err, readFile("/proc/sys/kernel/seccomp/actions_avail"), h)
}

// decideSeccomp returns the result for the error of installing no filter, and for the
// actions that the kernel has.
func decideSeccomp(err error, actions string, h *host) (r Result) {
	if !errors.Is(err, unix.EFAULT) {
		r.Warn(&cause.Facts{Host: h, Symptom: cause.NoSeccomp, Said: fmt.Sprint(err)})
		return r
	}
	found := "filters"
	if actions != "" {
		found += ": " + strings.TrimSpace(actions)
	}
	return Result{OK: true, Found: firstLine(found)}
}

func probeLandlock(context.Context, *host) Result {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return decideLandlock(0, errno)
	}
	return decideLandlock(int(abi), nil)
}

// decideLandlock returns the result for the kernel's answer.
func decideLandlock(abi int, err error) Result {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return Result{Code: "landlock-off", Problem: "not enabled: lsm=landlock,... is missing on the kernel's command line"}
	case err != nil:
		return Result{Code: "landlock-kernel", Problem: fmt.Sprintf("the kernel has no Landlock: %v", err)}
	}
	return Result{OK: true, Found: fmt.Sprintf("ABI %d", abi)}
}
