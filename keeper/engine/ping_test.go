package engine

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/launchtest"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// An engine that accepts connections and does not answer is an error, before the limit of what was asked for.
func TestHungEngine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	e, err := Open("/state", "abcdefghijkl", &runtime.SandboxConfig{Image: "busybox", Docker: &runtime.DockerConfig{Host: "unix://" + path}})
	if err != nil {
		t.Fatal(err)
	}
	e.answer = time.Millisecond
	step := func(string) {}
	_, err = e.Image(t.Context(), step)
	_, _, serr := e.Start(t.Context(), launchtest.Spec(func(*launch.Spec) {}), step)
	_, eerr := e.End(t.Context(), true, false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, lerr := e.Scan(ctx)
	for _, err := range []error{err, serr, eerr, lerr} {
		if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer") {
			t.Error(err)
		}
	}
}
