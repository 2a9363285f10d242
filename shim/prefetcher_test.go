package shim

import (
	"os"
	"testing"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
)

// A lister that is canceled lists nothing.
func TestCanceledLister(t *testing.T) {
	params := &boot.Params{Mnt: t.TempDir()}
	params.Config.UID = 1<<28 + os.Getpid() // no user has it
	if err := os.Mkdir(rootfs.TreeDir(params), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &prefetcher{params: params, relay: newRelay(nil)}
	if !p.run(prefetchIdle) {
		t.Error("it does not list")
	}
	p.cancel()
	if p.run(prefetchIdle) {
		t.Error("it lists after its end")
	}
}
