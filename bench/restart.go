package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wolffia/runtime"
)

// restart measures the service: a call over a connection that is kept, and, with
// 100 live sandboxes, how long after kill -9 it serves again and all sessions have
// answered, and whether anything is lost of what ran meanwhile.
func (b *bench) restart() (err error) {
	const n, rounds = 100, 10
	s := b.service()
	defer func() { err = errors.Join(err, s.end()) }()
	if _, err := s.start(); err != nil {
		return err
	}
	if err := atOnce(n, func(i int) error {
		var m struct{ SandboxID string }
		err := s.call("createSandbox", i, nil, &m)
		s.ids[i] = m.SandboxID
		return err
	}); err != nil {
		return err
	}
	if err := atOnce(n, func(i int) error {
		_, err := s.bash(i, fmt.Sprintf("cd /tmp; A=kept%d; mkfifo go", i), "")
		return err
	}); err != nil {
		return err
	}
	var builtin times
	for i := range 1050 {
		d, err := took(func() error { _, err := s.bash(0, ":", ""); return err })
		if err != nil {
			return err
		}
		if i >= 50 {
			builtin = append(builtin, d)
		}
	}
	b.row("service: session builtin over HTTP, connection kept", builtin, "0.5 / 3 ms")
	var serving, answered times
	for range rounds {
		s.kill()
		begin := time.Now()
		first, err := s.start()
		if err != nil {
			return err
		}
		if err := atOnce(n, func(i int) error {
			out, err := s.bash(i, "echo $A; pwd", "")
			if err == nil && out != fmt.Sprintf("kept%d\n/tmp\n", i) {
				err = fmt.Errorf("session %d has lost its state: %q", i, out)
			}
			return err
		}); err != nil {
			return err
		}
		serving, answered = append(serving, first), append(answered, time.Since(begin))
	}
	b.row("service: kill -9 with 100 sandboxes, serving again", serving, "500 ms")
	b.row("  all 100 sessions have answered with their state", answered, "")
	return b.nothingLost(s)
}

// nothingLost kills the service while a command runs in each sandbox.
func (b *bench) nothingLost(s *service) error {
	const half = 100_000
	want := func(i int) string {
		return fmt.Sprintf("%s\nkept%d over\n", strings.Repeat("x", half), i)
	}
	const command = "head -c 100000 /dev/zero | tr '\\0' x; echo; read x <go; echo $A over"
	n := len(s.ids)
	asked := make(chan error, n)
	for i := range n {
		go func() { _, err := s.bash(i, command, "op"); asked <- err }() // ends with the service
	}
	for i := range n { // until all have begun
		for !s.running(i) {
			time.Sleep(time.Millisecond)
		}
	}
	s.kill()
	for range n {
		if err := <-asked; err == nil {
			return errors.New("a command has ended before it should")
		}
	}
	begin := time.Now()
	if _, err := s.start(); err != nil {
		return err
	}
	lost := make([]bool, n)
	err := atOnce(n, func(i int) error {
		if err := b.execIn(s.ids[i], "sh", "-c", "echo >/tmp/go"); err != nil {
			return err
		}
		out, err := s.bash(i, command, "op")
		lost[i] = err == nil && out != want(i)
		return err
	})
	if err != nil {
		return err
	}
	count := 0
	for _, l := range lost {
		if l {
			count++
		}
	}
	fmt.Fprintf(b.table, "  100 commands ran on, all asked for again\t\t%s\t\tnothing lost: %d lost\t\n", ms(time.Since(begin)), count)
	return nil
}

// running reports whether a command runs in owner i's session.
func (s *service) running(i int) bool {
	info, err := s.b.rt.GetSession(s.b.ctx, runtime.SessionIn(s.ids[i], "main"))
	return err == nil && info.State == runtime.SessionRunning
}

// atOnce calls f n times at the same time.
func atOnce(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// A service is wolffia serve as a process, and a client of it.
type service struct {
	b      *bench
	socket string
	ids    []string // of the sandboxes, by owner
	cmd    *exec.Cmd
	client *http.Client
}

func (b *bench) service() *service {
	s := &service{b: b, socket: filepath.Join(b.state, "service", "sock"), ids: make([]string, 100)}
	s.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.socket)
		},
		MaxIdleConnsPerHost: len(s.ids),
	}}
	return s
}

// start starts it and returns how long it took until it has answered.
func (s *service) start() (time.Duration, error) {
	s.cmd = exec.Command(s.b.wolffia, "serve", "--codebase", s.b.codebase)
	s.cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+s.b.state)
	s.client.CloseIdleConnections()
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return 0, err
	}
	for {
		c, err := net.Dial("unix", s.socket)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Since(begin) > time.Minute {
			return 0, fmt.Errorf("the service does not serve: %w", err)
		}
		time.Sleep(time.Millisecond)
	}
	var found struct{ Sandboxes []struct{ SandboxID string } }
	err := s.post("scanRunningSandboxes", map[string]any{}, &found)
	return time.Since(begin), err
}

func (s *service) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// end ends it, and its sandboxes.
func (s *service) end() error {
	s.kill()
	return atOnce(len(s.ids), func(i int) error {
		if s.ids[i] == "" {
			return nil
		}
		return s.b.rt.Destroy(s.b.ctx, s.ids[i])
	})
}

// bash runs a command for owner i, which must end with 0.
func (s *service) bash(i int, command, operation string) (string, error) {
	var r struct {
		Stdout   string
		ExitCode int
	}
	err := s.call("executeBash", i, map[string]any{"sandboxId": s.ids[i], "command": command, "operationId": operation}, &r)
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("%s: exit code %d", command, r.ExitCode)
	}
	return r.Stdout, err
}

func (s *service) call(name string, i int, request map[string]any, reply any) error {
	all := map[string]any{"organizationId": "o", "projectId": "p", "userId": fmt.Sprint(i)}
	for k, v := range request {
		all[k] = v
	}
	return s.post(name, all, reply)
}

func (s *service) post(name string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	res, err := s.client.Post("http://wolffia/api/v1/"+name, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && !slices.Contains([]int{http.StatusOK, http.StatusCreated}, res.StatusCode) {
		err = fmt.Errorf("%s: %d %s", name, res.StatusCode, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, reply)
	}
	return err
}
