package gvisor

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/runsc"
	"wolffia/runtime"
)

// KVM is the platform that needs the host's /dev/kvm. On a virtual machine it may hang.
const KVM = "kvm"

// Platforms returns the permitted values of SandboxConfig.Platform.
func Platforms() []string { return []string{DefaultPlatform, KVM} }

// program returns a function that finds runsc once: it may have to be run for its version.
func program() func(beside string) (string, error) {
	var mu sync.Mutex
	var found *runsc.Found
	return func(beside string) (string, error) {
		mu.Lock() // also during the search: all callers need its result
		defer mu.Unlock()
		if found == nil {
			var err error
			if found, err = runsc.Find(context.Background(), beside); err != nil {
				return "", runtime.Errorf(runtime.ErrUnavailable, "gVisor: %w; %s builds the one that wolffia is tested with", err, runsc.Fix)
			}
		}
		return found.Path, nil
	}
}

const kvmDevice = "/dev/kvm"

// checkPlatform returns an error for a platform whose device the host lacks. It does not
// try the platform; the start of a sandbox has a limit.
func checkPlatform(name, device string) error {
	if name != KVM {
		return nil
	}
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "platform kvm: %w; without --platform, %s is used, which works on every host", err, DefaultPlatform)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	return nil
}
