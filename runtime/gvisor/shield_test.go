package gvisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/shimtest"
	"wolffia/runtime"
)

// Where links lead while runsc makes places to mount on, it makes nothing in
// what is shown read-only.
func TestPlacesThroughLinks(t *testing.T) {
	need(t)
	rt := backend.Fresh(t)
	dir := shimtest.PublicDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"root", "root/usr", "root/usr/there", "data", "data/there", "writable", "source"} {
		// The sandbox's user could make something in it.
		if err := errors.Join(os.Mkdir(at(name), 0o755), os.Chmod(at(name), 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"root/link": "usr", "root/absolute": "/data", "writable/link": "/usr", "writable/data": "../data"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for target, ok := range map[string]bool{
		"/link/there": true, "/absolute/there": true,
		"/link/none": false, "/absolute/none": false, "/writable/link/there": false, "/writable/link/none": false, "/writable/data/none": false,
	} {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Rootfs: at("root"), Mounts: []runtime.Mount{
			{Source: at("data"), Target: "/data"},
			{Source: at("writable"), Target: "/writable", Writable: true},
			{Source: at("source"), Target: target},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); (err == nil) != ok {
			t.Errorf("%s: got err %v; want (err == nil) == %v", target, err, ok)
		}
		if err := rt.Destroy(context.WithoutCancel(t.Context()), s.ID); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"root/usr", "data", "source"} {
		left, err := os.ReadDir(at(name))
		if err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != "there" {
			t.Errorf("made on the host, in %s: %v, %v", name, left, err)
		}
	}
}
