package session_test

import (
	"context"
	"strings"
	"testing"

	"wolffia/internal/test/wait"
	"wolffia/wire"
)

// A new shell that has got back all its state has its predecessor's limits and directory stack.
func TestLimitsAreRestored(t *testing.T) {
	s := open(t, "bash")
	const state = "ulimit -Sn; ulimit -Hn; ulimit -Sf; ulimit -Hf; ulimit -Sc; dirs -l; pwd"
	s.exec(t, "mkdir -p '/mnt/.w it'; ulimit -Sn 77; ulimit -Hn 88; ulimit -f 4000; cd /usr; pushd /tmp >/dev/null; pushd '/mnt/.w it' >/dev/null")
	before := s.exec(t, state)
	if !strings.HasPrefix(before, "77\n88\n4000\n4000\n") || !strings.HasSuffix(before, "\n/mnt/.w it /tmp /usr\n/mnt/.w it\n") {
		t.Fatalf("exec: got before %q; want before begins with %q and before ends with %q",
			before, "77\n88\n4000\n4000\n", "\n/mnt/.w it /tmp /usr\n/mnt/.w it\n")
	}
	for _, end := range []string{"exit 0", "kill -9 $$"} {
		s.run(t, end)
		r := s.run(t, state)
		if r.stdout != before {
			t.Errorf("after %s: %q, want %q", end, r.stdout, before)
		}
		want := wire.RestoredFull
		if end != "exit 0" {
			want = wire.RestoredPartial
		}
		if r.Restored != want {
			t.Errorf("after %s: %s", end, r.Restored)
		}
		s.alive(t)
	}
}

// The directory of a result is right though a trap on DEBUG prints while the shell ends.
func TestDirBesideDebugTrap(t *testing.T) {
	s := open(t, "bash")
	s.exec(t, "cd /usr; set -T; trap 'echo D' DEBUG")
	if r := s.run(t, "exit 2"); r.Cwd != "/usr" || r.Code != 2 || !r.SessionEnded {
		t.Errorf(`run "exit 2": got r %v; want r.Cwd == "/usr" and r.Code == 2 and r.SessionEnded`, r)
	}
}

// An operation on a job names the session that is missing, and not the job.
func TestJobOfNoSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := connect(t).WaitJob(ctx, "nosession", "1"); err == nil || !strings.Contains(err.Error(), `no session "nosession"`) {
		t.Error(err)
	}
}
