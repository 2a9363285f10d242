package service_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

const (
	crashState  = "WOLFFIA_TEST_CRASH_STATE"
	crashBinary = "WOLFFIA_TEST_CRASH_BINARY"
	crashSeed   = "WOLFFIA_TEST_CRASH_SEED"
	crashKind   = "WOLFFIA_TEST_CRASH_KIND"
	crashOwners = 4
)

func crashOwner(n int) registry.Owner {
	return registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: strconv.Itoa(n)}
}

// serveUntilKilled has a service make and destroy sandboxes as fast as it can, and
// says what it begins and what is done.
func serveUntilKilled(state string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	rt, err := local.New(&local.Options{StateDir: state, Binary: os.Getenv(crashBinary)}, kinds[os.Getenv(crashKind)].backend)
	fail(err)
	ctx := context.Background()
	s, err := service.Open(ctx, rt, state, nil)
	fail(err)
	seed, err := strconv.ParseUint(os.Getenv(crashSeed), 10, 64)
	fail(err)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for {
		n := rnd.IntN(crashOwners)
		fmt.Println("begin", n)
		m, err := s.Owned().FindSandbox(ctx, crashOwner(n))
		switch {
		case err != nil:
			m, err = s.Owned().CreateSandbox(ctx, crashOwner(n), nil)
			fail(err)
			fmt.Println("has", n, m.SandboxID)
		case rnd.IntN(3) == 0:
			_, _, err = s.Owned().EnsureSandbox(ctx, crashOwner(n), nil)
			fail(err)
			fmt.Println("has", n, m.SandboxID)
		default:
			fail(s.Owned().DestroySandbox(ctx, crashOwner(n), m.SandboxID))
			fmt.Println("has", n, "nothing")
		}
	}
}

// A service that is killed at any moment loses nothing that it has acknowledged;
// the next one finds every sandbox running, and none that it does not know.
func TestKilledService(t *testing.T) {
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	has := map[int]string{} // by owner: the id, or "nothing"
	for round := range 8 {
		begun := w.untilKilled(has, rnd)
		w.T = suite.New(t) // time of its own
		start := time.Now()
		s, log := w.service(newDriver(w.rt, nil))
		t.Logf("round %d: serving after %v", round, time.Since(start))
		known := []string{}
		for n := range crashOwners {
			m, err := s.Owned().FindSandbox(w.Ctx, crashOwner(n))
			id := m.SandboxID
			if err != nil {
				id = "nothing"
			} else {
				known = append(known, id)
			}
			if want := has[n]; n != begun && want != "" && id != want {
				t.Errorf("round %d: owner %d had %s, acknowledged, and has %s", round, n, want, id)
			}
			has[n] = id
		}
		slices.Sort(known)
		if there := w.boxes(); !slices.Equal(there, known) {
			t.Errorf("round %d: there are %v, and known %v; log %s", round, there, known, log)
		}
		for n := range crashOwners {
			if has[n] == "nothing" {
				continue
			}
			if m, made, err := s.Owned().EnsureSandbox(w.Ctx, crashOwner(n), nil); err != nil || made || m.SandboxID != has[n] {
				t.Errorf("round %d: owner %d: %+v, %v, %v", round, n, m, made, err)
			}
		}
		w.OK(s.Close())
		if t.Failed() {
			return
		}
	}
}

// untilKilled has another process serve, kills it, and notes what it has done.
// It returns the owner for whom it was doing something.
func (w *world) untilKilled(has map[int]string, rnd *rand.Rand) (begun int) {
	w.Helper()
	binary := filepath.Join(testbin.Dir(w.TB), "wolffia")
	out, in, err := os.Pipe()
	w.OK(err)
	defer out.Close()
	child := &exec.Cmd{
		Path: "/proc/self/exe", Args: os.Args[:1], Stdout: in, Stderr: in,
		Env: append(os.Environ(), crashState+"="+w.state, crashBinary+"="+binary, crashSeed+"="+strconv.FormatUint(rnd.Uint64(), 10), crashKind+"="+on.backend.Name()),
	}
	w.OK(child.Start())
	w.OK(in.Close())
	guard := time.AfterFunc(5*suite.Limit, func() { _ = child.Process.Kill() })
	defer guard.Stop()
	lines, after := bufio.NewScanner(out), 2+rnd.IntN(12)
	pause := time.Duration(rnd.IntN(30)) * time.Millisecond // so that it is in the midst of something
	var killer *time.Timer
	for seen := 0; lines.Scan(); seen++ {
		f := strings.Fields(lines.Text())
		n := -1
		if len(f) > 1 {
			n, err = strconv.Atoi(f[1])
		}
		switch {
		case len(f) == 2 && f[0] == "begin" && err == nil:
			begun = n
		case len(f) == 3 && f[0] == "has" && err == nil:
			has[n], begun = f[2], -1
		default:
			w.Errorf("the service says %q", lines.Text())
		}
		if seen == after {
			killer = time.AfterFunc(pause, func() { _ = child.Process.Kill() })
		}
	}
	if killer == nil {
		w.Errorf("the service has ended by itself")
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	return begun
}

// What runs in a sandbox does not notice that the service is another.
func TestRestartKeepsSessions(t *testing.T) {
	w := newWorld(t)
	s, _ := w.service(w.driver())
	m, err := s.Owned().CreateSandbox(w.Ctx, zoe, nil)
	w.OK(err)
	bash := func(command string) string {
		w.Helper()
		r, err := s.Owned().ExecuteBash(w.Ctx, zoe, m.SandboxID, &runtime.Command{Command: []string{command}})
		w.OK(err)
		return string(r.Stdout)
	}
	shell := bash("cd /tmp; A=kept; mkfifo go; { cat go; echo done > result; } >/dev/null 2>&1 & echo $$")
	w.OK(s.Close())
	w.OK(w.rt.Close())
	w.rt = w.open()
	s, _ = w.service(w.driver())
	if got := bash("echo $$; echo $A; pwd"); got != shell+"kept\n/tmp\n" {
		t.Errorf("the shell is another: %q, was %q", got, shell)
	}
	if got := bash("echo > go; wait; cat result"); got != "done\n" {
		t.Errorf("the job says %q", got)
	}
}
