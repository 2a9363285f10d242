package guest

import (
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// The signals of shells and scripts, as their /proc/PID/status shows them.
func TestInteractive(t *testing.T) {
	set := func(all ...unix.Signal) (s proc.SignalSet) {
		for _, sig := range all {
			s |= 1 << (uint(sig) - 1)
		}
		return s
	}
	for name, tt := range map[string]struct {
		does proc.Signals
		want bool
	}{
		"bash -i":                       {proc.Signals{Ignored: set(unix.SIGQUIT, unix.SIGTERM), Caught: set(unix.SIGHUP, unix.SIGINT)}, true},
		"bash -i that makes a process":  {proc.Signals{Ignored: set(unix.SIGQUIT), Blocked: set(unix.SIGTERM, unix.SIGINT, unix.SIGCHLD), Caught: set(unix.SIGHUP)}, true},
		"dash -i":                       {proc.Signals{Ignored: set(unix.SIGQUIT, unix.SIGTERM), Caught: set(unix.SIGINT)}, true},
		"a script of bash":              {proc.Signals{Ignored: set(unix.SIGQUIT), Blocked: set(unix.SIGTERM, unix.SIGCHLD)}, false},
		"a script with a trap on EXIT":  {proc.Signals{Ignored: set(unix.SIGQUIT), Blocked: set(unix.SIGTERM), Caught: set(unix.SIGHUP, unix.SIGTERM)}, false},
		"a script that ignores SIGTERM": {proc.Signals{Ignored: set(unix.SIGTERM)}, false},
		"a program":                     {proc.Signals{}, false},
	} {
		if got := interactive(&tt.does); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
