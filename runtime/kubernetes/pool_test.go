package kubernetes_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
)

// A pod that runs already becomes an owner's sandbox, whose owner the cluster then tells. It is like
// one that was started for its owner: it has the owner's network, and can be stopped and started. No
// pod outlives its pool.
func TestPool(t *testing.T) {
	image := need(t)
	testenv.Unprivileged(t)
	rt := fresh(t)
	template := runtime.SandboxConfig{Image: image, Network: runtime.NetworkFiltered}
	pool, err := rt.StartPool(t.Context(), &template, local.PoolOptions{Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.StopPool(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for _, what := range []string{"lost", "started again", "bound"} {
		c := template
		c.Egress, c.BoundToCaller = &network.Policy{Allow: []string{"ann.example:8000"}}, what == "bound"
		if c.ID = rt.ReservePooled(pool.Shape); c.ID == "" {
			t.Fatal("no pod is ready")
		}
		id := c.ID
		service.SetOwner(&c, ann, false)
		begin := time.Now()
		if _, err = rt.Create(t.Context(), &c); err == nil {
			err = rt.Start(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		sh(t, rt, id, "nslookup -type=a ann.example")
		t.Logf("%s: first command after %v", what, time.Since(begin))
		wait.Until(t, "the pool is filled", func() bool {
			all, err := rt.Pools()
			return err == nil && len(all) == 1 && all[0].Claimed > 0 && all[0].Ready == 2
		})
		switch what {
		case "lost":
			shimtest.Kill(t, rt.State, id)
			if err := rmtree.RemovePath(filepath.Join(rt.State, "sandboxes"), id); err != nil {
				t.Fatal(err)
			}
			lost, err := service.Lost(t.Context(), rt)
			if err != nil || len(lost) != 1 || lost[0].Owner != ann || lost[0].SandboxID != id {
				t.Errorf("lost: %+v, %v", lost, err)
			}
		case "started again":
			if err := rt.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if err := rt.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			sh(t, rt, id, "echo again")
		}
		destroy(t, rt, id)
	}
}
