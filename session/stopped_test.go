package session_test

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/wire"
)

// stops is a command that says "ready" on its errors when it is stopped.
const stops = `sh -c '(until grep -q "^State:.T" /proc/$$/status; do :; done; echo ready >&2) & kill -STOP $$; echo not here'`

// What is stopped ends by a signal that asks it to: in the foreground, and in a job.
func TestSignalOfStopped(t *testing.T) {
	s := open(t, "bash")
	r := s.start(t, "("+stops+"; :)") // a shell without job control, as that in parentheses, waits for what is stopped
	r.err.await(t, "ready")
	if err := r.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := r.wait(t); got.stdout != "" || got.Code != 130 {
		t.Errorf(`wait: got %v; want got.stdout == "" and got.Code == 130`, got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	fifo := t.TempDir() + "/fifo"
	s.exec(t, "mkfifo "+fifo)
	_, err := s.conn.StartJob(ctx, &wire.StartRequest{
		Args: []string{stops + " 2>" + fifo}, Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name, Job: "job"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, "read x <"+fifo)
	if err := s.conn.SignalJob(ctx, s.name, "job", unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if st, err := s.conn.WaitJob(ctx, s.name, "job"); err != nil || st.Code != 143 {
		t.Errorf(`WaitJob "job": got st %+v, err %v; want err == nil and st.Code == 143`, st, err)
	}
}
