package servetest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"wolffia/internal/host/programs"
	"wolffia/internal/test/testbin"
)

// A Managed is wolffia serve as systemd starts it: with a socket to listen on, and one that it
// notifies.
type Managed struct {
	*World
	Program string // wolffia
	passed  *os.File
	args    []string
	cmd     *exec.Cmd
	notify  string
	told    chan string
	ignores sync.Mutex // held while nothing is read
	Stopped chan error // has the end of the process
}

// NewManaged starts wolffia serve with the flags args, and with l to listen on; nil: it listens
// itself. It is killed when the test ends.
func NewManaged(t testing.TB, l interface{ File() (*os.File, error) }, args ...string) *Managed {
	t.Helper()
	m := &Managed{World: prepare(t), Program: filepath.Join(testbin.Dir(t), "wolffia"), args: args, told: make(chan string, 1000)}
	m.notify = filepath.Join(t.TempDir(), "notify")
	heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	m.OK(err)
	t.Cleanup(func() { _ = heard.Close() })
	go m.hear(heard) // ends with the test
	if l != nil {
		m.passed, err = l.File()
		m.OK(err)
		t.Cleanup(func() { _ = m.passed.Close() })
	}
	t.Cleanup(func() { _ = m.cmd.Process.Kill() })
	m.start()
	return m
}

func (m *Managed) start() {
	m.Helper()
	// Of systemd, LISTEN_PID has the number of the service's process.
	args := append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", m.Program, "--state-dir", m.State, "serve"}, m.args...)
	m.cmd = exec.Command("sh", args...)
	m.cmd.Stderr = &m.Log
	m.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.notify, "WATCHDOG_USEC=100000")
	if m.passed != nil {
		m.cmd.ExtraFiles, m.cmd.Env = []*os.File{m.passed}, append(m.cmd.Env, "LISTEN_FDS=1")
	}
	m.OK(m.cmd.Start())
	m.Stopped = make(chan error, 1)
	go func(cmd *exec.Cmd, stopped chan error) { stopped <- cmd.Wait() }(m.cmd, m.Stopped) // ends with the process
}

// Replace stops the service, and starts the one of the file Program. It returns when that is ready.
func (m *Managed) Replace() {
	m.Helper()
	m.Signal(syscall.SIGTERM)
	select {
	case err := <-m.Stopped:
		m.OK(err)
	case <-m.Ctx.Done():
		m.Fatalf("the service does not stop\n%s", m.Log.String())
	}
	m.start()
	m.Told("READY=1")
}

// Packed returns a wolffia as it is released, of the programs in dir. Those that it lacks are the usual
// ones.
func Packed(t testing.TB, dir string) (file string) {
	t.Helper()
	from := func(name string) string {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
		return filepath.Join(testbin.Dir(t), name)
	}
	file = filepath.Join(t.TempDir(), "wolffia")
	err := programs.Pack(file, from("wolffia"), from(programs.Guest), from(programs.Tree), from(programs.Box), from(programs.Serve))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Signal sends the service a signal.
func (m *Managed) Signal(s os.Signal) {
	m.Helper()
	m.OK(m.cmd.Process.Signal(s))
}

// Ignore reads nothing of what the service tells, until the test ends.
func (m *Managed) Ignore() {
	m.ignores.Lock()
	m.Cleanup(m.ignores.Unlock)
}

// awaitEnd waits while the manager ignores the service.
func (m *Managed) awaitEnd() {
	m.ignores.Lock()
	defer m.ignores.Unlock()
}

// hear passes on what the service reports to its manager. What no test asks for is lost.
func (m *Managed) hear(from *net.UnixConn) {
	for buf := make([]byte, 4096); ; {
		n, err := from.Read(buf)
		if err != nil {
			return // the test has ended
		}
		m.awaitEnd()
		select {
		case m.told <- string(buf[:n]):
		default:
		}
	}
}

// Told returns once the service has told its manager a state.
func (m *Managed) Told(state string) {
	m.Helper()
	for {
		select {
		case said := <-m.told:
			if strings.Contains(said, state) {
				return
			}
		case <-m.Ctx.Done():
			m.Fatalf("the service has not told %q\n%s", state, m.Log.String())
		}
	}
}
