package gate

import (
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// A system call is judged by what it would need.
func TestAttempts(t *testing.T) {
	for _, test := range []struct {
		nr   uint64
		args [6]uint64
		want Intent
		ok   bool
	}{
		{unix.SYS_OPENAT, [6]uint64{2: unix.O_RDONLY}, Intent{Op: "open-read", Need: perm.Read}, true},
		{unix.SYS_OPENAT, [6]uint64{2: unix.O_RDONLY | unix.O_TRUNC}, Intent{Op: "open-write", Need: perm.Write}, true},
		{unix.SYS_OPENAT, [6]uint64{2: unix.O_PATH}, Intent{Op: "open-read", Need: perm.Read}, false},
		{unix.SYS_UNLINKAT, [6]uint64{}, Intent{Op: "unlink", Need: perm.Write, Name: true}, true},
		{unix.SYS_NEWFSTATAT, [6]uint64{}, Intent{}, false},
		{unix.SYS_FACCESSAT2, [6]uint64{}, Intent{}, false},
		{1 << 40, [6]uint64{}, Intent{}, false},
	} {
		if got, ok := intentOf(test.nr, test.args); got != test.want || ok != test.ok {
			t.Errorf("system call %d %x: %+v, %v", test.nr, test.args, got, ok)
		}
	}
	if _, _, ok := systemCall(1 << 31); ok {
		t.Error("a thread that is not there waits")
	}
}
