package signals

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
)

// A signal that comes while a command takes over ends the context before that, or goes to the command.
func TestHeedLosesNoSignal(t *testing.T) {
	for range 1000 {
		came, taken := make(chan os.Signal, 1), make(chan os.Signal, 1)
		ctx, h := newHandler(t.Context(), came)
		go func() { came <- unix.SIGTERM; close(came) }() // ends at once
		if h.Forward(ctx, taken) == nil {
			wait.Receive(t, "the signal at the command", taken)
		}
		<-ctx.Done()
		if code, _ := CodeOf(ctx); code != 128+15 {
			t.Fatalf("the context ends with the code %d", code)
		}
	}
}
