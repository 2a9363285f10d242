package crashtest

import (
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// A paused sandbox whose PID 1, or bubblewrap, is killed is dead, also where no signal ends what is frozen.
func TestKilledWhileFrozen(t *testing.T) {
	testenv.Cgroups(t)
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	rt := w.open()
	for _, victim := range []string{theGuest, theBackend} {
		s := paused(w)
		p, is := parts(processes(t), s.id)[victim]
		if !is {
			t.Fatalf("%s: there are %v", victim, processes(t))
		}
		w.OK(unix.Kill(p.PID, unix.SIGKILL))
		wait.For(t, "the end of a sandbox whose "+victim+" was killed while it was frozen", func() runtime.State {
			b, err := rt.Get(w.Ctx, s.id)
			w.OK(err)
			return b.State
		}, func(state runtime.State) bool { return state == runtime.StateDead })
		w.OK(rt.Destroy(w.Ctx, s.id))
	}
	w.nothing(rt)
}
