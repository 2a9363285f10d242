package bwrap_test

import (
	"testing"
	"time"

	"wolffia/image/store"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

func TestImages(t *testing.T) {
	testenv.Both(t)
	need(t)
	shimtest.Images(t, backend, "/oldroot") // there while bubblewrap mounts; CVE-2026-87766
}

// Of one who makes a sandbox and one who deletes its image at the same time, one succeeds: which one
// varies, for each has a head start in turn, and a longer one until both have won.
func TestImageRemovedWhileCreating(t *testing.T) {
	rt := backend.Fresh(t)
	images := store.Open(rt.State)
	outcomes := map[bool]int{}
	begun := time.Now()
	for round := 0; round < 100 || len(outcomes) < 2; round++ {
		if time.Since(begun) > wait.Limit {
			t.Fatalf("after %d rounds the sandboxes that were created, and not, are %v; want both", round, outcomes)
		}
		headStart := time.Duration(round%10) * 100 * time.Microsecond
		if round >= 100 {
			headStart = time.Duration(round) * time.Millisecond
		}
		src := testimage.Source(t, store.Config{}, testimage.Layer(t, testimage.File{Name: "file"}))
		img, err := images.Add(t.Context(), src, store.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		removed := make(chan error)
		go func() {
			if round%2 == 0 {
				time.Sleep(headStart)
			}
			removed <- images.Remove(t.Context(), img.ID)
		}()
		if round%2 != 0 {
			time.Sleep(headStart)
		}
		s, cerr := rt.Create(t.Context(), &runtime.SandboxConfig{ImageID: img.ID})
		rerr := <-removed
		_, err = images.Get(img.ID)
		switch there := err == nil; {
		case cerr == nil && runtime.Class(rerr) == runtime.ErrConflict && there:
		case runtime.Class(cerr) == runtime.ErrNotFound && rerr == nil && !there:
		default:
			t.Fatalf("create: %v; remove: %v; the image is there: %v", cerr, rerr, there)
		}
		outcomes[cerr == nil]++
		if cerr == nil {
			if err := rt.Destroy(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("created and removed: %v", outcomes)
}
