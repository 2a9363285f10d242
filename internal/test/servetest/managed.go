package servetest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testbin"
)

// A Managed is wolffia serve as systemd starts it: with a socket to listen on, and one that it
// notifies.
type Managed struct {
	*World
	cmd     *exec.Cmd
	told    *net.UnixConn
	Stopped chan error // has the end of the process
}

// NewManaged starts wolffia serve with the flags args, and with l to listen on. It is killed when
// the test ends.
func NewManaged(t testing.TB, l interface{ File() (*os.File, error) }, args ...string) *Managed {
	t.Helper()
	m := &Managed{World: prepare(t), Stopped: make(chan error, 1)}
	notify := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	var err error
	m.told, err = net.ListenUnixgram("unixgram", notify)
	m.OK(err)
	t.Cleanup(func() { _ = m.told.Close() })
	f, err := l.File()
	m.OK(err)
	defer f.Close()
	args = append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", m.State, "serve"}, args...)
	m.cmd = exec.Command("sh", args...) // of systemd, LISTEN_PID has the number of the service's process
	m.cmd.ExtraFiles, m.cmd.Stderr = []*os.File{f}, &m.Log
	m.cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+notify.Name, "WATCHDOG_USEC=100000")
	m.OK(m.cmd.Start())
	go func() { m.Stopped <- m.cmd.Wait() }() // ends with the process
	t.Cleanup(func() { _ = m.cmd.Process.Kill() })
	return m
}

// Signal sends the service a signal.
func (m *Managed) Signal(s os.Signal) {
	m.Helper()
	m.OK(m.cmd.Process.Signal(s))
}

// Told returns once the service has told its manager a state.
func (m *Managed) Told(state string) {
	m.Helper()
	deadline, _ := m.Ctx.Deadline()
	m.OK(m.told.SetReadDeadline(deadline))
	for buf := make([]byte, 4096); ; {
		n, err := m.told.Read(buf)
		if err != nil {
			m.Fatalf("the service has not told %q: %v\n%s", state, err, m.Log.String())
		}
		if strings.Contains(string(buf[:n]), state) {
			return
		}
	}
}
