package registry_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// open opens the registry of a directory, and checks it on the way out.
func open(t testing.TB, dir string) *registry.Registry {
	t.Helper()
	log := new(suite.Buffer)
	r, err := registry.Open(dir, slog.New(slog.NewTextHandler(log, nil)))
	ok(t, err)
	if log.String() != "" {
		t.Errorf("Open of a whole registry logs %s", log)
	}
	t.Cleanup(func() { closeWhole(t, r) })
	return r
}

var quiet = slog.New(slog.DiscardHandler)

// closeWhole closes a registry that must be whole, if it is not closed yet.
func closeWhole(t testing.TB, r *registry.Registry) {
	t.Helper()
	if err := r.Check(); err != nil && !errors.Is(err, registry.ErrClosed) {
		t.Errorf("the registry is not whole in the end: %v", err)
	}
	ok(t, r.Close())
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wrong(t testing.TB, what string, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("%s: error is %v, want %v", what, err, class)
	}
}

// box is the metadata of a sandbox of owner o.
func box(n int, o registry.Owner) registry.Metadata {
	return registry.Metadata{
		SandboxID: fmt.Sprintf("box%09d", n), ContainerName: fmt.Sprintf("name%d", n), Owner: o, CreatedAt: int64(1_700_000_000_000 + n),
	}
}

func owner(n int) registry.Owner {
	return registry.Owner{OrganizationID: "org", ProjectID: "project", UserID: fmt.Sprintf("user%d", n)}
}

// copyFile copies the index as it is on the disk now, as a crash leaves it.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, "registry.db"))
	if errors.Is(err, fs.ErrNotExist) { // nothing was registered yet
		return
	}
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(to, "registry.db"), data, 0o600))
}

// has checks what a registry says of a sandbox and its owner.
func has(t testing.TB, r *registry.Registry, m registry.Metadata) {
	t.Helper()
	if got, err := r.GetMetadata(m.SandboxID); err != nil || got != m {
		t.Errorf("GetMetadata is %+v, %v; want %+v", got, err, m)
	}
	if got, err := r.FindByOwner(m.Owner); err != nil || got != m {
		t.Errorf("FindByOwner is %+v, %v; want %+v", got, err, m)
	}
}

func hasNot(t testing.TB, r *registry.Registry, m registry.Metadata) {
	t.Helper()
	got, err := r.GetMetadata(m.SandboxID)
	if got != (registry.Metadata{}) {
		t.Errorf("GetMetadata of what is not there is %+v", got)
	}
	wrong(t, "GetMetadata", err, runtime.ErrNotFound)
	if got, err = r.FindByOwner(m.Owner); got.SandboxID == m.SandboxID {
		t.Errorf("FindByOwner finds %+v, %v", got, err)
	}
}
