package docker_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/service"
	"wolffia/service/registry"
)

var zoe = registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "zoe"}

// forget deletes what the state directory has of a sandbox, but for what is
// mounted there, as somebody does who does not know what it is.
func forget(t *testing.T, rt *shimtest.Runtime, id string) {
	t.Helper()
	sb := filepath.Join(rt.State, "sandboxes", id)
	tree := filepath.Join(sb, "engine", "tree")
	var dirs []string
	err := filepath.WalkDir(sb, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == tree:
			return fs.SkipDir
		case d.IsDir():
			dirs = append(dirs, path)
			return nil
		}
		return os.Remove(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range dirs {
		_ = os.Remove(dirs[len(dirs)-1-i]) // but those that the mount is in
	}
	if _, err := rt.Get(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
		t.Fatalf("it is not forgotten: %v", err)
	}
}

// lost are the ids of what is lost, and of those whose owner is known.
func lost(t *testing.T, rt *shimtest.Runtime) (all, owned string) {
	t.Helper()
	found, err := rt.Lost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, s := range found {
		ids = append(ids, s.ID)
		if s.State != runtime.StateDead || !strings.Contains(s.Reason, "wolffia rm "+s.ID) {
			t.Errorf("got s %+v; want s.State == runtime.StateDead and s.Reason contains %q", s, "wolffia rm "+s.ID)
		}
	}
	owners, err := service.Lost(t.Context(), rt)
	if err != nil {
		t.Fatal(err)
	}
	known := []string{}
	for _, m := range owners {
		if m.Owner != zoe {
			t.Errorf("got m %+v; want m.Owner == %v", m, zoe)
		}
		known = append(known, m.SandboxID)
	}
	return strings.Join(ids, " "), strings.Join(known, " ")
}

// A sandbox whose place in the state directory was deleted is found by its
// container, with its owner, and can be destroyed: running or dead, with a
// codebase or stopped on an image.
func TestLost(t *testing.T) {
	need(t)
	image := busybox(t)
	rt := fresh(t)
	other := fresh(t)
	for what, tt := range map[string]struct {
		config *runtime.SandboxConfig
		before func(id string)
	}{
		"running": {&runtime.SandboxConfig{}, func(string) {}},
		"dead": {&runtime.SandboxConfig{Name: "named"}, func(id string) {
			killPart(t, id, "wolffia-oci keep")
			partless(t, id)
		}},
		"stopped": {&runtime.SandboxConfig{Image: image}, func(id string) {
			if err := rt.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		service.SetOwner(tt.config, zoe, false)
		s := start(t, rt, tt.config)
		if all, _ := lost(t, rt); all != "" {
			t.Errorf("%s: %s is lost before its time", what, all)
		}
		tt.before(s.ID)
		forget(t, rt, s.ID)
		if all, owned := lost(t, rt); all != s.ID || owned != s.ID {
			t.Errorf("%s: lost are %q, and with an owner %q", what, all, owned)
		}
		found, err := service.Lost(t.Context(), rt)
		if err != nil || len(found) != 1 || found[0].ContainerName != s.ContainerName() || found[0].CreatedAt != s.CreatedAt.UnixMilli() {
			t.Errorf("%s: got found %+v, err %v; want err == nil and len(found) == 1 and found[0].ContainerName == s.ContainerName() and found[0].CreatedAt == s.CreatedAt.UnixMilli()",
				what, found, err)
		}
		if all, _ := lost(t, other); all != "" {
			t.Errorf("%s: another state directory has lost %s", what, all)
		}
		if err := other.Destroy(t.Context(), s.ID); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: destroyed by another state directory: %v", what, err)
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		partless(t, s.ID)
		gone(t, s.ID)
		if err := rt.Destroy(t.Context(), s.ID); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: destroyed twice: %v", what, err)
		}
	}
}

// When its place is deleted and its shim killed, the keeper still removes the
// container.
func TestLostAndKilledShim(t *testing.T) {
	need(t)
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	forget(t, rt, s.ID)
	killPart(t, s.ID, "wolffia shim")
	partless(t, s.ID)
	gone(t, s.ID)
	if _, err := rt.List(t.Context()); err != nil { // sweeps up what is left of its place
		t.Error(err)
	}
}

// What only looks like ours is neither reported nor touched: containers with
// another name, owner of the state directory, state directory or id, and those
// that an image has given our labels.
func TestLookalikes(t *testing.T) {
	need(t)
	rt := fresh(t)
	const id = "aaaaaaaaaaaa"
	labels := []string{
		"wolffia.sandboxId=" + id, "wolffia.stateDir=" + rt.State, "wolffia.uid=" + strconv.Itoa(os.Geteuid()), "wolffia.createdAt=1",
		"wolffia.organizationId=acme", "wolffia.projectId=web", "wolffia.userId=zoe",
	}
	image := busybox(t)
	change := []string{"import"}
	for _, l := range labels {
		change = append(change, "--change", "LABEL "+l)
	}
	dockertest.Docker(t, append(change, busyboxTar(t), "wolffia-test-hostile:1")...)
	t.Cleanup(func() { dockertest.Docker(t, "rmi", "--force", "wolffia-test-hostile:1") })
	create := func(image, name string, labels ...string) {
		args := []string{"create", "--name", name}
		for _, l := range labels {
			args = append(args, "--label", l)
		}
		made := strings.TrimSpace(dockertest.Docker(t, append(args, image, "/bin/sh")...))
		t.Cleanup(func() { // which fails if it is gone
			dockertest.Docker(t, "inspect", "--format", "{{.Id}}", made)
			dockertest.Docker(t, "rm", made)
		})
	}
	replaced := func(n int, label string) []string {
		l := append([]string{}, labels...)
		l[n] = label
		return l
	}
	create("wolffia-test-hostile:1", "somebodys")
	create(image, "wolffia-"+id+"-2", labels...)
	create(image, "wolffia-bbbbbbbbbbbb", labels...)
	create(image, "wolffia-cccccccccccc", replaced(0, "wolffia.sandboxId=cccccccccccc")[:1]...)
	create(image, "wolffia-dddddddddddd", append(replaced(0, "wolffia.sandboxId=dddddddddddd"), "wolffia.uid=4242")...)
	create(image, "wolffia-eeeeeeeeeeee", append(replaced(0, "wolffia.sandboxId=eeeeeeeeeeee"), "wolffia.stateDir="+rt.State+"/x")...)
	create(image, "wolffia-ffffffffffff", append(replaced(0, "wolffia.sandboxId=ffffffffffff"), "wolffia.createdAt=soon")...)
	create(image, "wolffia-short", replaced(0, "wolffia.sandboxId=short")...)
	if all, _ := lost(t, rt); all != "" {
		t.Errorf("lost is %s", all)
	}
	for _, id := range []string{id, "bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd", "eeeeeeeeeeee", "ffffffffffff"} {
		if err := rt.Destroy(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: got %v, want runtime.ErrNotFound", id, err)
		}
	}
	// A sandbox that has no owner gets none from its image.
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Image: "wolffia-test-hostile:1"})
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	forget(t, rt, s.ID)
	if all, owned := lost(t, rt); all != s.ID || owned != "" {
		t.Errorf("lost are %q, with an owner %q", all, owned)
	}
	destroy(t, rt, s.ID)
}

// No engine is asked but where sandboxes are, or would be, in one.
func TestLostAsksNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	go func() { // ends when the listener does
		defer close(asked)
		if c, err := listener.Accept(); err == nil {
			_ = c.Close()
			asked <- struct{}{}
		}
	}()
	t.Setenv("DOCKER_HOST", "unix://"+path)
	rt := shimtest.Of(bwrap.Backend(), docker.Backend()).Fresh(t)
	if found, err := rt.Lost(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("Lost: got found %v, err %v; want err == nil and len(found) <= 0", found, err)
	}
	_ = listener.Close()
	if _, was := <-asked; was {
		t.Error("the engine was asked")
	}
	// One that is not there is an error where it matters, and none has what it had.
	rt = backend.Fresh(t)
	if found, err := rt.Lost(t.Context()); !errors.Is(err, runtime.ErrUnavailable) || len(found) > 0 {
		t.Errorf("Lost: got found %v, err %v; want err is runtime.ErrUnavailable and len(found) <= 0", found, err)
	}
	if err := rt.Destroy(t.Context(), "aaaaaaaaaaaa"); !errors.Is(err, runtime.ErrNotFound) {
		t.Error(err)
	}
}
