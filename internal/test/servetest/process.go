package servetest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testimage"
)

// A Process is a World whose service is wolffia serve, a process of its own. Service, Gate and
// Log are not set.
type Process struct {
	*World
	Listen string // where Start has it listen; empty: on a free port of 127.0.0.1
	cmd    *exec.Cmd
	keys   string        // file with API keys; empty: none
	more   []string      // flags of serve
	ended  chan struct{} // closed when the process's log has ended
}

// NewProcess is New with a process, which gets more flags, if any.
func NewProcess(t testing.TB, keys string, more ...string) *Process {
	t.Helper()
	p := &Process{World: prepare(t), more: more}
	if keys != "" {
		p.keys = filepath.Join(t.TempDir(), "keys")
		p.OK(os.WriteFile(p.keys, []byte(keys), 0o600))
	}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the service, on another address each time unless Listen is set, and returns when it serves.
func (p *Process) Start() {
	p.Helper()
	args := []string{"--state-dir", p.State, "serve", "--codebase", p.Codebase, "--rule", "**=write", "--rule", "secret=none", "--listen", cmp.Or(p.Listen, "127.0.0.1:0")}
	if p.keys != "" {
		args = append(args, "--api-keys", p.keys)
	}
	p.cmd = exec.Command(filepath.Join(testbin.Dir(p.TB), "wolffia"), append(args, p.more...)...)
	log, err := p.cmd.StderrPipe()
	p.OK(err)
	p.OK(p.cmd.Start())
	p.ended = make(chan struct{})
	address, said := make(chan string, 1), new(strings.Builder)
	go func(ended chan struct{}) { // ends with the process
		defer close(ended)
		r := bufio.NewReader(log)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				close(address)
				return
			}
			var entry struct{ Msg, Address string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
				address <- entry.Address
				_, _ = io.Copy(io.Discard, r)
				return
			}
			said.Write(line)
		}
	}(p.ended)
	select {
	case at, ok := <-address:
		if !ok {
			p.Fatalf("wolffia serve: %s", said)
		}
		p.Address = at
	case <-p.Ctx.Done():
		p.Fatal("wolffia serve: it hangs")
	}
}

// Kill kills the service with SIGKILL, if it runs, and returns when it is gone.
func (p *Process) Kill() {
	p.Client.CloseIdleConnections()
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.cmd.Wait()
}

// Memory returns the anonymous memory of the service that is resident, in bytes (RssAnon in
// proc_pid_status(5)).
func (p *Process) Memory() int64 { return p.status("RssAnon") }

// Peak returns the most memory that the service ever had, in bytes (VmHWM).
func (p *Process) Peak() int64 { return p.status("VmHWM") }

// Threads returns how many threads the service has.
func (p *Process) Threads() int64 { return p.number("Threads: %d") }

// status returns an amount of memory in the status of the service.
func (p *Process) status(name string) int64 { return p.number(name+": %d kB") << 10 }

// number returns a number of the status of the service.
func (p *Process) number(format string) int64 {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	p.OK(err)
	for line := range strings.Lines(string(text)) {
		var number int64
		if n, _ := fmt.Sscanf(line, format, &number); n == 1 {
			return number
		}
	}
	p.Fatalf("the status has no %q", format)
	return 0
}

// ImportBusybox gives the service's host the image name, of busybox alone.
func (p *Process) ImportBusybox(name string) {
	p.Helper()
	p.ImportLayer(name, store.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"sh"}}, testimage.Layer(p.TB, testimage.Busybox(p.TB)...))
}

// ImportLayer gives the service's host the image name, of one layer, an archive of tar.
func (p *Process) ImportLayer(name string, config store.Config, layer []byte) {
	p.Helper()
	file := testimage.Archive(p.TB, name, config, layer)
	text, err := exec.CommandContext(p.Ctx, filepath.Join(testbin.Dir(p.TB), "wolffia"), "--state-dir", p.State, "image", "import", file).CombinedOutput()
	if err != nil {
		p.Fatalf("image import: %v\n%s", err, text)
	}
}
