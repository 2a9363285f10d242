package crashtest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/service"
)

// full and readOnly are what the system says.
const (
	full     = "no space left on device"
	readOnly = "read-only file system"
)

// refused checks that something failed, and says why.
func (w *world) refused(what string, err error, why string) {
	w.Helper()
	if err == nil || !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), why) {
		w.Errorf("%s: the error is %v, want %q", what, err, why)
	}
}

// A disk that is full, or cannot be written to, is said to be; what runs goes on,
// all of it can be seen and used, and nothing is left half made.
func TestDisk(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	disk := testenv.OnSmallDisk(t, "1m")
	if disk == nil {
		return
	}
	w := newWorldAt(t, backend{name: bwrap.Name, shims: bwrap.Backend()}, filepath.Join(disk.Dir, "state"))
	rt := w.open()
	make := func() string {
		s, err := rt.Create(w.Ctx, w.config(theOwner))
		w.OK(err)
		return s.ID
	}
	created, stops, destroyed := make(), make(), make()
	for _, id := range []string{stops, destroyed} {
		w.OK(rt.Start(w.Ctx, id))
	}
	s := w.openService(rt)
	w.OK(s.Close())
	for _, c := range []struct {
		why   string
		state string
		begin func() (end func())
	}{
		{full, w.state, disk.Fill},
		{readOnly, filepath.Join(disk.ReadOnly, "state"), func() func() { return func() {} }},
	} {
		t.Run(strings.ReplaceAll(c.why, " ", "_"), func(t *testing.T) {
			w.T = suite.New(t)
			end := c.begin()
			rt, err := local.New(&local.Options{StateDir: c.state, Binary: filepath.Join(w.bin, "wolffia")}, w.backend.shims)
			w.OK(err)
			defer rt.Close()
			before := w.subjects()
			_, err = rt.Create(w.Ctx, w.config(theOwner))
			w.refused("create", err, c.why)
			if after := w.subjects(); len(after) != len(before) {
				t.Errorf("there were %v, and are %v", before, after)
			}
			w.refused("other rules", rt.SetPermissions(w.Ctx, w.bystander, []perm.Rule{{Pattern: "**", Level: perm.Read}}), c.why)
			list, err := rt.List(w.Ctx)
			if err != nil || len(list) != len(before)+1 {
				t.Errorf("there are %v, %v", list, err)
			}
			if got := w.inSession(rt, w.bystander, "echo $KEPT"); got != "bystander" {
				t.Errorf("the bystander says %q", got)
			}
			if c.why == readOnly {
				w.refused("start", rt.Start(w.Ctx, created), c.why)
				w.refused("destroy", rt.Destroy(w.Ctx, created), c.why)
				_, err := service.Open(w.Ctx, rt, c.state, nil)
				w.refused("a service", err, c.why)
			} else {
				s := w.openService(rt) // it has room for what it does
				m, err := s.Owned().FindSandbox(w.Ctx, another)
				if err != nil || m.SandboxID != w.bystander {
					t.Errorf("FindSandbox: got m %+v, err %v; want err == nil and m.SandboxID == %v", m, err, w.bystander)
				}
				_, err = s.Owned().CreateSandbox(w.Ctx, theOwner, nil)
				if err == nil {
					t.Errorf("a service made a sandbox")
				}
				w.OK(s.Close())
				w.OK(rt.Stop(w.Ctx, stops))
				w.OK(rt.Destroy(w.Ctx, destroyed))
			}
			end()
			// Now there is room: as if it had not been.
			w.settled(w.open())
		})
	}
	w.T = suite.New(t)
	for _, id := range []string{created, stops} {
		w.OK(w.whole(rt, id, runtime.StateCreated, theOwner))
	}
	for _, id := range w.subjects() {
		w.OK(rt.Destroy(w.Ctx, id))
	}
	w.nothing(rt)
}
