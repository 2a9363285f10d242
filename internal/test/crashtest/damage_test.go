package crashtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// The files of a sandbox's place that wolffia reads, or opens.
var stateFiles = []string{"config.json", "shim.json", "run/status.json", "lock", "run/log", "run/audit.log"}

// A damage is what may have become of a file. It gets the file's place, what is
// in it, and a file of somebody else's, which must stay as it is.
type damage struct {
	name string
	do   func(path string, content []byte, other string) error
}

func damages() []damage {
	write := func(b []byte) func(string, []byte, string) error {
		return func(path string, _ []byte, _ string) error { return put(path, b) }
	}
	change := func(f func(all map[string]any)) func(string, []byte, string) error {
		return func(path string, content []byte, _ string) error {
			all := map[string]any{}
			_ = json.Unmarshal(content, &all) // what is no JSON becomes some
			f(all)
			b, err := json.Marshal(all)
			return errors.Join(err, put(path, b))
		}
	}
	return []damage{
		{"missing", func(path string, _ []byte, _ string) error { return os.Remove(path) }},
		{"empty", write(nil)},
		{"truncated", func(path string, content []byte, _ string) error { return put(path, content[:len(content)/2]) }},
		{"garbage", write(bytes.Repeat([]byte("\x00\xff{]\n"), 1000))},
		{"null", write([]byte("null"))},
		{"a list", write([]byte("[1, 2]"))},
		{"wrong types", change(func(all map[string]any) {
			for k := range all {
				all[k] = []any{map[string]any{"a": -1e300}}
			}
		})},
		{"nothing in it", write([]byte("{}"))},
		{"deep", write(bytes.Repeat([]byte(`{"labels":[`), 200_000))},
		{"huge", write(append([]byte(`{"reason":"`), append(bytes.Repeat([]byte("x"), 20<<20), `"}`...)...))},
		{"another's id", change(func(all map[string]any) { all["id"], all["name"] = "aaaaaaaaaaaa", "../../.." })},
		{"not readable", func(path string, _ []byte, _ string) error { return os.Chmod(path, 0) }},
		{"a FIFO", func(path string, _ []byte, _ string) error {
			return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o666))
		}},
		{"a link", func(path string, _ []byte, other string) error {
			return errors.Join(os.Remove(path), os.Symlink(other, path))
		}},
		{"a directory", func(path string, _ []byte, _ string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		}},
	}
}

// put replaces what is in a file, or makes it.
func put(path string, b []byte) error {
	return errors.Join(os.WriteFile(path, b, 0o600))
}

// Whatever has become of a file: the others' sandboxes are there and work, no
// file of somebody else's is touched, nobody else is killed, nobody waits for
// ever, and the sandbox can be removed.
func TestDamagedState(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	other := filepath.Join(w.tmp, "..", "other")
	w.OK(os.WriteFile(other, []byte("not yours"), 0o600))
	type fault struct {
		state runtime.State
		file  string
		damage
	}
	var all []fault
	for _, state := range []runtime.State{runtime.StateRunning, runtime.StateStopped, runtime.StateDead} {
		for _, file := range stateFiles {
			for _, d := range damages() {
				all = append(all, fault{state, file, d})
			}
		}
	}
	rnd := random(t)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if os.Getenv(roundsVariable) != "all" {
		all = all[:60]
	}
	for _, f := range all {
		t.Run(strings.Join([]string{string(f.state), f.file, f.name}, "/"), func(t *testing.T) {
			outer := w.T
			defer func() { w.T = outer }()
			w.T = suite.New(t)
			w.damaged(f.state, f.file, &f.damage, other)
		})
		if left := w.subjects(); t.Failed() || len(left) > 0 { // what is left would be the next one's
			w.endAll()
			w = newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
		}
	}
}

func (w *world) damaged(state runtime.State, file string, d *damage, other string) {
	rt := w.open()
	defer rt.Close()
	s, err := rt.Create(w.Ctx, w.config(theOwner))
	w.OK(err)
	w.OK(rt.Start(w.Ctx, s.ID))
	switch state {
	case runtime.StateStopped:
		w.OK(rt.Stop(w.Ctx, s.ID))
	case runtime.StateDead:
		w.die(s.ID)
	}
	path := filepath.Join(w.state, "sandboxes", s.ID, file)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) { // in this state
		err = put(path, nil)
	}
	w.OK(err)
	w.OK(d.do(path, content, other))

	rt = w.open() // which knows nothing of before
	defer rt.Close()
	list, err := rt.List(w.Ctx)
	w.OK(err)
	if !slices.ContainsFunc(list, func(s *runtime.Sandbox) bool { return s.ID == w.bystander && s.State == runtime.StateRunning }) {
		w.Errorf("the bystander is not in %+v", list)
	}
	_, err = w.open().Create(w.Ctx, &runtime.SandboxConfig{Name: "aaaa"}) // looks at all names
	w.OK(err)
	w.OK(rt.Destroy(w.Ctx, "aaaa"))
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"get", func() error { _, err := rt.Get(w.Ctx, s.ID); return err }},
		{"log", func() error {
			f, err := rt.Log(s.ID)
			if err == nil {
				err = f.Close()
			}
			return err
		}},
		{"audit", func() error {
			a, _, err := rt.Audit(w.Ctx, s.ID)
			if err == nil {
				err = a.Close()
			}
			return err
		}},
		{"exec", func() error {
			_, err := rt.Exec(w.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"true"}})
			return err
		}},
		{"start", func() error { return rt.Start(w.Ctx, s.ID) }},
		{"stop", func() error { return rt.Stop(w.Ctx, s.ID) }},
		{"destroy", func() error { return rt.Destroy(w.Ctx, s.ID) }},
	} {
		begin := time.Now()
		err := c.do()
		took := time.Since(begin)
		w.Logf("%s: %.200v (%v)", c.what, err, took.Round(time.Millisecond))
		if err != nil && runtime.Class(err) == nil {
			w.Errorf("%s: an error without a class: %v", c.what, err)
		}
		if took > 9*time.Second {
			w.Errorf("%s took %v", c.what, took)
		}
		if c.what == "destroy" && err != nil && !errors.Is(err, runtime.ErrNotFound) {
			w.Errorf("it cannot be removed: %v", err)
		}
	}
	w.nothing(w.open())
	if b, err := os.ReadFile(other); err != nil || string(b) != "not yours" {
		w.Errorf("somebody else's file has %q, %v", b, err)
	}
}
