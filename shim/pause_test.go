package shim

import (
	"io"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/wire"
)

// From Quiesce to Resumed the guest is sent nothing, and whatever is to be sent waits. A guest that
// does not answer holds up nothing else.
func TestQuiesce(t *testing.T) {
	for name, answers := range map[string]bool{"a guest that answers": true, "a silent guest": false} {
		t.Run(name, func(t *testing.T) {
			guestIn, toGuest := io.Pipe()
			fromGuest, guestOut := io.Pipe()
			t.Cleanup(func() { _, _, _ = guestIn.Close(), guestOut.Close(), toGuest.Close() })
			r := newRelay(pair{fromGuest, toGuest})
			over := make(chan error, 1)
			go func() { over <- r.run() }()
			in, out := wire.NewReader(guestIn), wire.NewWriter(guestOut)
			reads := func(want ...wire.Type) {
				t.Helper()
				for _, typ := range want {
					f, err := in.Next()
					if err != nil || f.Type != typ {
						t.Fatalf("the guest is sent %d (%v), want %d", f.Type, err, typ)
					}
					f.Release()
				}
			}
			for range 2 {
				quiet, limit := make(chan bool, 1), wait.Limit
				if !answers {
					limit = 10 * time.Millisecond
				}
				go func() { quiet <- r.quiesce(limit) }()
				if answers {
					reads(wire.Quiesce)
					for range 2 { // one more is of no consequence
						if err := out.Send(wire.Quiet, 0, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				if got := wait.Receive(t, "the end of quiesce", quiet); got != answers {
					t.Errorf("quiesce: got %v, want %v", got, answers)
				}
				sent := make(chan error, 1)
				go func() { sent <- r.w.Send(wire.Ping, 0, nil) }()
				if !answers {
					reads(wire.Quiesce)
				}
				r.mu.Lock()
				r.watch() // no heart beats meanwhile
				if r.watching {
					t.Error("a paused guest is watched")
				}
				r.mu.Unlock()
				r.resume()
				reads(wire.Resumed, wire.Ping)
				if err := wait.Receive(t, "the frame that waited", sent); err != nil {
					t.Error(err)
				}
			}
			select {
			case err := <-over:
				t.Errorf("the stream has ended: %v", err)
			default:
			}
		})
	}
}
