package shim

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire"
)

// stoodStill is a shim whose backend says when it stops processes, has them run on, and kills them.
// PID 1 answers Quiesce.
func stoodStill(t *testing.T, save func(dir *os.File) error) (*shim, *[]string) {
	guestIn, toGuest := io.Pipe()
	fromGuest, guestOut := io.Pipe()
	t.Cleanup(func() { _, _, _ = guestIn.Close(), guestOut.Close(), toGuest.Close() })
	var did []string
	does := func(what string) func() error {
		return func() error {
			did = append(did, what)
			return nil
		}
	}
	s := &shim{
		boot: &boot.Params{Run: t.TempDir()}, relay: newRelay(pair{fromGuest, toGuest}),
		inst: &instance{Instance: &launch.Instance{
			Pause: does("stop"), Resume: does("run on"), Kill: does("kill"),
			Save: func(dir *os.File) (func(bool) error, error) {
				return func(bool) error { return does("complete")() }, save(dir)
			},
		}},
	}
	go func() { _ = s.relay.run() }()
	go func() {
		in, out := wire.NewReader(guestIn), wire.NewWriter(guestOut)
		for {
			f, err := in.Next()
			if err != nil {
				return
			}
			if f.Type == wire.Quiesce {
				_ = out.Send(wire.Quiet, 0, nil)
			}
			f.Release()
		}
	}()
	return s, &did
}

// A sandbox that does not hibernate after all runs on, or ends as it was asked to: by signals, so
// its processes run until then. Nothing of its memory stays.
func TestHibernate(t *testing.T) {
	full := errors.New("the disk is full")
	ends := func(s *shim) { s.outcome = &statedir.Status{State: runtime.StateStopped} }
	for name, tt := range map[string]struct {
		idle      bool
		meanwhile func(*shim)
		save      error
		want      error
		did       string
	}{
		"it does":                    {meanwhile: func(*shim) {}, did: "stop, kill"},
		"of an unused one":           {idle: true, meanwhile: func(*shim) {}, did: "stop, kill"},
		"the disk is full":           {meanwhile: func(*shim) {}, save: full, want: full, did: "stop, run on"},
		"it is used meanwhile":       {idle: true, meanwhile: func(s *shim) { s.relay.hold() }, did: "stop, run on"},
		"its end was asked for":      {meanwhile: ends, want: runtime.ErrConflict, did: "stop, run on"},
		"an unused one is to end":    {idle: true, meanwhile: ends, want: runtime.ErrConflict, did: "stop, run on"},
		"its end, and the disk full": {meanwhile: ends, save: full, want: full, did: "stop, run on"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *shim
			s, did := stoodStill(t, func(dir *os.File) error {
				for _, name := range launch.MemoryFiles {
					if err := os.WriteFile(filepath.Join(dir.Name(), name), []byte("key"), 0o600); err != nil {
						return err
					}
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				tt.meanwhile(s)
				return tt.save
			})
			socket := statedir.Socket(s.boot.Run)
			if err := os.WriteFile(socket, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.hibernate(tt.idle); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if got := strings.ReplaceAll(strings.Join(*did, ", "), "complete, ", ""); got != tt.did {
				t.Errorf("the shim does: %s; want %s", got, tt.did)
			}
			memory := filepath.Join(s.boot.Run, statedir.CowMemory)
			hibernates := s.outcome != nil && s.outcome.Reason == statedir.Hibernates
			for path, is := range map[string]bool{memory: hibernates, socket: !hibernates} {
				if _, err := os.Stat(path); (err == nil) != is {
					t.Errorf("it hibernates: %t; %s: %v", hibernates, path, err)
				}
			}
		})
	}
}

// A sandbox whose memory is kept for a snapshot stands still while that is written, and not while
// it is made durable.
func TestSaveRunsOn(t *testing.T) {
	s, did := stoodStill(t, func(*os.File) error { return nil })
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := s.save(dir, &boot.Request{Sync: true}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(*did, ", "); got != "stop, run on, complete" {
		t.Errorf("the shim does: %s; want: stop, run on, complete", got)
	}
}
