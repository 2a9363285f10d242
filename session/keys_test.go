package session_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A process that no other process can examine, such as ssh-agent, does not make another session's
// commands wait for keys without end.
func TestKeysBesideWhatCannotBeExamined(t *testing.T) {
	agents := open(t, "bash")
	agent := t.TempDir() + "/agent" // the kernel makes a program undumpable that may only be executed
	pid := strings.TrimSpace(agents.exec(t, `cp "$(command -v bash)" `+agent+`; chmod 111 `+agent+`
		(setsid `+agent+` -c 'echo $$; exec >/dev/null 2>&1; sleep 1000; :' </dev/null &) | head -n 1`))
	if _, err := os.Stat("/proc/" + pid + "/fd/0"); !os.IsPermission(err) {
		t.Fatalf("the agent, %s, can be examined: %v", pid, err)
	}
	s := open(t, "bash")
	for _, text := range []string{"read -n 1 x </dev/tty", "(read -n 1 x </dev/tty)"} {
		if r := s.run(t, text, timeout(10*time.Second)); r.TimedOut || !r.WantedTerminal {
			t.Errorf("%s: got r %v; want not r.TimedOut and r.WantedTerminal", text, r)
		}
	}
	s.alive(t)
	// One that is in the foreground itself may do anything: it is left alone.
	if r := s.run(t, agent+" -c 'stty raw; read -t 2 x; echo over' </dev/tty"); r.WantedTerminal || r.stdout != "over\n" {
		t.Errorf("what cannot be examined: %v", r)
	}
}
