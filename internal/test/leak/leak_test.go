package leak

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// A recorder is a test that notes its errors and runs its cleanups when told.
type recorder struct {
	*testing.T
	cleanups []func()
	errors   []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// says returns what Check says of a test, with less patience.
func says(t *testing.T, test func(), allowed ...string) []string {
	t.Helper()
	r := &recorder{T: t}
	check(r, 500*time.Millisecond, allowed)
	test()
	for _, f := range r.cleanups {
		f()
	}
	return r.errors
}

// one fails t unless there is one error, with text.
func one(t *testing.T, errors []string, text string) {
	t.Helper()
	if len(errors) != 1 || !strings.Contains(errors[0], text) {
		t.Errorf("got %q, want one with %q", errors, text)
	}
}

func block(c <-chan struct{}) { <-c }

func TestClean(t *testing.T) {
	errors := says(t, func() {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { // ends with the pipe
			_, _ = r.Read(make([]byte, 1))
			close(done)
		}()
		w.Close()
		<-done
		r.Close()
		if err := exec.CommandContext(t.Context(), "true").Run(); err != nil {
			t.Fatal(err)
		}
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		signal.Stop(c)
		t.Run("sub", func(*testing.T) {})
	})
	if len(errors) > 0 {
		t.Error(errors)
	}
}

// TestSlow: what ends a little later is no leak.
func TestSlow(t *testing.T) {
	Check(t)
	cmd := exec.CommandContext(t.Context(), "sleep", "0.1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := make(chan struct{})
	go func() { // ends with the command
		_ = cmd.Wait()
		close(c)
	}()
	go block(c)
}

func TestDescriptor(t *testing.T) {
	var f *os.File
	one(t, says(t, func() { f, _ = os.Open("/dev/null") }), "/dev/null")
	f.Close()
}

func TestGoroutine(t *testing.T) {
	c := make(chan struct{})
	defer close(c)
	one(t, says(t, func() { go block(c) }), "leak.block")
	if errors := says(t, func() { go block(c) }, "leak.block"); len(errors) > 0 {
		t.Error(errors)
	}
}

func TestChild(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	zombie := exec.CommandContext(t.Context(), "true")
	errors := says(t, func() {
		for _, c := range []*exec.Cmd{cmd, zombie} {
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Waitid(unix.P_PID, zombie.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
	})
	_ = cmd.Process.Kill()
	_, _ = cmd.Wait(), zombie.Wait()
	text := strings.Join(errors, "\n")
	for _, want := range []string{"sleep 60", "dead and not waited for"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

func TestMount(t *testing.T) {
	testenv.Both(t)
	dir := t.TempDir()
	mounted := false
	errors := says(t, func() { mounted = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k") == nil })
	if !mounted {
		t.Skip("NEEDS root: mounting is not permitted")
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Error(err)
	}
	one(t, errors, "mount of tmpfs at "+dir)
}

func TestOurs(t *testing.T) {
	for point, want := range map[string]bool{
		"/tmp/TestX99/001": true, "/tmp/TestXsub99/001/a": true, "/home/x": true, "/": true, "/tmp": true,
		"/tmp/TestY99/001": false, "/tmp/other": false,
	} {
		if got := ours(point, "/tmp/TestX1234"); got != want {
			t.Errorf("%s: got %v, want %v", point, got, want)
		}
	}
}
