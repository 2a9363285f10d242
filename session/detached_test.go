package session_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// Any number may watch a kept command, come late, read slowly and leave; each that
// stays has all of it, and it is run once.
func TestKeptCommandIsWatched(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			s.exec(t, "n=0")
			const text = "n=$((n+1)); i=0; while [ $i -lt 3000 ]; do echo $n.$i; echo $i >&2; i=$((i+1)); done; sleep 0.2; echo end; f() { return 9; }; f"
			var want strings.Builder
			for i := range 3000 {
				fmt.Fprintf(&want, "1.%d\n", i)
			}
			want.WriteString("end\n")
			start := func() *client.Process {
				p, err := s.conn.Start(&client.Request{StartRequest: wire.StartRequest{
					Args:    []string{text},
					Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name, Job: "op", Keep: true},
				}})
				if err != nil {
					t.Error(err)
				}
				return p
			}
			var all sync.WaitGroup
			for i := range 12 {
				all.Go(func() {
					p := start()
					if p == nil {
						return
					}
					if i%3 == 2 {
						_, _ = p.Stdout().Read(make([]byte, 100))
						_ = p.Kill()
						_, _ = p.Wait(ctx)
						return
					}
					var out, errs bytes.Buffer
					var both sync.WaitGroup
					both.Go(func() { _, _ = out.ReadFrom(p.Stdout()) })
					both.Go(func() { _, _ = errs.ReadFrom(p.Stderr()) })
					st, err := p.Wait(ctx)
					both.Wait()
					if err != nil || st.Code != 9 || out.String() != want.String() || strings.Count(errs.String(), "\n") != 3000 ||
						st.StdoutEnd != uint64(want.Len()) || st.StderrEnd != uint64(errs.Len()) {
						t.Errorf("%d: %+v, %v: %d bytes, want %d", i, st, err, out.Len(), want.Len())
					}
				})
			}
			all.Wait()
			s.alive(t)
		})
	}
}

// A command that is given up while its directory is being set is not run to its
// end.
func TestGivenUpBeforeItRuns(t *testing.T) {
	s := open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for i := range 200 {
		p, err := s.conn.Start(&client.Request{StartRequest: wire.StartRequest{
			Args: []string{"sleep 1000"}, Dir: "/tmp", Env: []string{"A=1"},
			Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(time.Duration(i%20) * 50 * time.Microsecond); time.Now().Before(until); {
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(ctx); err != nil && ctx.Err() != nil {
			t.Fatalf("round %d: it runs on", i)
		}
	}
	if cwd := s.info(t).Cwd; cwd != "/" {
		t.Errorf("the session is in %q", cwd)
	}
	s.alive(t)
}
