package statedir_test

import (
	"os/exec"
	"testing"
	"time"

	"wolffia/internal/host/statedir"
)

// What a start has recorded is ended, and nothing else of the same number.
func TestEndParts(t *testing.T) {
	rec := create(t, open(t), "parts", "")
	if recorded, err := rec.Processes().EndParts(time.Minute); recorded || err != nil {
		t.Errorf("nothing is recorded: %v, %v", recorded, err)
	}
	// A shell that is the parent of another.
	shim := exec.Command("sh", "-c", "sh -c 'exec sleep 1000' & echo there; wait")
	out, err := shim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shim.Wait() }()
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	p, err := statedir.ProcessOf(shim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	parts := statedir.Descendants(p.PID)
	if len(parts) == 0 {
		t.Fatal("it has no descendants")
	}
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stranger.Process.Kill(), stranger.Wait() }()
	other, err := statedir.ProcessOf(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	alive := other
	other.Start += "1"
	if err := rec.Processes().SetShim(&p, "v1", append(parts, other)...); err != nil {
		t.Fatal(err)
	}
	if recorded, err := rec.Processes().EndParts(time.Minute); !recorded || err != nil {
		t.Errorf("EndParts: got recorded %v, err %v; want recorded and err == nil", recorded, err)
	}
	_ = shim.Wait()
	if left := statedir.Descendants(p.PID); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if now, err := statedir.ProcessOf(alive.PID); err != nil || now != alive {
		t.Errorf("a stranger was killed: %+v, %v", now, err)
	}
	if err := rec.Processes().ForgetShim(); err != nil || rec.Processes().Shim() != (statedir.Process{}) {
		t.Errorf("ForgetShim: got %v, %+v; want nil, statedir.Process{}", err, rec.Processes().Shim())
	}
}
