package crashtest

import (
	"path/filepath"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/host/probe"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// A process is killed, the server of /usr among them: nothing is left of a sandbox with root inside over
// the host's own system, nor a copy of that which is half made.
func TestCrashOverHost(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.SubIDs(t)
	if err := rootfs.CheckSystem(); err != nil {
		t.Skip(err)
	}
	var some []operation
	for _, op := range commandLines() {
		switch op.name {
		case "create":
			first := op
			first.name, first.steps = "create the first", "image: "
			first.prepare, first.check = withoutSystem, onlyWhole
			some = append(some, op, first)
		case "start one that is stopped", "start one that is dead", "exec", "stop", "destroy", "run":
			some = append(some, op)
		}
	}
	crash(t, backend{bwrap.Name, bwrap.Backend(), []string{"--root"}}, some, 1)
}

// withoutSystem has the copy of the host's system be made again.
func withoutSystem(w *world) subject {
	w.Helper()
	_, err := store.Open(w.state).Prune(w.Ctx, false)
	w.OK(err)
	return subject{}
}

// onlyWhole checks that the store has copies of the host's system only if they are whole.
func onlyWhole(w *world, _ *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	s := store.Open(w.state)
	all, err := s.List()
	w.OK(err)
	for _, img := range all {
		if img.Problem != "" || !img.System || img.Files < 100 {
			w.Fatalf("the store has %+v", img)
		}
	}
	if e.ok && (len(all) != 1 || id != e.answer) {
		w.Fatalf("it is %s in state %q, acknowledged was %s; the store has %d copies", id, state, e.answer, len(all))
	}
	w.OK(s.Sweep())
	left, err := filepath.Glob(filepath.Join(w.state, "images", "*"))
	w.OK(err)
	for _, name := range left {
		if strings.Contains(filepath.Base(name), ".new") || strings.HasSuffix(name, ".old") {
			w.Fatalf("left: %s", name)
		}
	}
}
