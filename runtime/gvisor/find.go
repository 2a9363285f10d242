package gvisor

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/runsc"
	"wolffia/runtime"
)

// KVM is the platform that needs the host's /dev/kvm, and a processor that is
// not itself a virtual one: there it may hang.
const KVM = "kvm"

// Platforms are what SandboxConfig.Platform may be.
func Platforms() []string { return []string{DefaultPlatform, KVM} }

// program returns a function that finds runsc, and remembers it: its version
// may have to be asked.
func program() func(beside string) (string, error) {
	var mu sync.Mutex
	var found *runsc.Found
	return func(beside string) (string, error) {
		mu.Lock() // also while looking: nobody else needs it sooner
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

// checkPlatform refuses a platform that this host has not. Whether it works is
// for the sandbox's own start to show, which has a limit.
func checkPlatform(name, device string) error {
	if name != KVM {
		return nil
	}
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "platform kvm: %w; without --platform it is %s, which works everywhere", err, DefaultPlatform)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	return nil
}
