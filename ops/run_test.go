package ops_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/runtime/mock"
)

// run runs a script in a sandbox of a mock.
func run(t *testing.T, ctx context.Context, script string, stdout, stderr ops.Sink) (*runtime.Result, error) {
	t.Helper()
	rt := mock.New()
	sb, err := runtime.Launch(t.Context(), rt, &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	return ops.Run(ctx, rt, sb.ID(), &runtime.Command{Command: []string{"sh", "-c", script}}, stdout, stderr)
}

func TestRun(t *testing.T) {
	var out, errs bytes.Buffer
	r, err := run(t, t.Context(), "echo out; echo err >&2; exit 3", ops.To(&out), ops.To(&errs))
	if err != nil || r.ExitCode != 3 || r.Duration <= 0 || r.Stdout != nil || out.String() != "out\n" || errs.String() != "err\n" {
		t.Errorf(`run "echo out; echo err >&2; exit 3": got r %+v, err %v, %q, %q; want err == nil and r.ExitCode == 3 and r.Duration > 0 and r.Stdout == nil and out.String() == %q and errs.String() == %q`,
			r, err, &out, &errs, "out\n", "err\n")
	}
}

const endless = "echo begun; sleep 1000"

// What does not take the output ends the command, and is why.
func TestSinkFails(t *testing.T) {
	full := errors.New("the disk is full")
	if r, err := run(t, t.Context(), endless, func(io.Reader) error { return full }, ops.To(io.Discard)); r != nil || !errors.Is(err, full) {
		t.Errorf("run: got %+v, %v; want nil, %v", r, err, full)
	}
}

// The end of the context ends the command, and its cause is the error.
func TestContextEnds(t *testing.T) {
	gone := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	began := time.Now()
	r, err := run(t, ctx, endless, func(r io.Reader) error {
		_, _ = r.Read(make([]byte, 100))
		cancel(gone)
		return ops.To(io.Discard)(r)
	}, ops.To(io.Discard))
	if r != nil || !errors.Is(err, gone) || time.Since(began) > time.Minute {
		t.Errorf("run: got r %+v, err %v; want r == nil and err is %v and time.Since(began) <= time.Minute", r, err, gone)
	}
}
