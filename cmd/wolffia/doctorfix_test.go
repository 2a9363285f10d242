package main

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
)

// Only what sandboxes need is fixed, once, and only by what can be run here.
func TestFixesOf(t *testing.T) {
	got := fixesOf([]probe.Result{
		{Feature: "a", Required: true, Problem: "p", Fix: "fix-a"},
		{Feature: "b", Required: true, Problem: "p", Fix: "fix-b", Because: "a"},
		{Feature: "c", Problem: "p", Fix: "fix-c"},
		{Feature: "d", Required: true, Problem: "p", Fix: "# on another machine"},
		{Feature: "e", Required: true, OK: true, Problem: "a risk", Fix: "fix-e"},
		{Feature: "f", Required: true, OK: true},
	})
	if want := []string{"fix-a", "fix-e"}; !slices.Equal(got, want) {
		t.Errorf("fixesOf: got %q, want %q", got, want)
	}
}

// A fix is shown, and run only after a yes: at a terminal, or by the flag.
func TestDoctorFix(t *testing.T) {
	testenv.Root(t) // whose fixes have no sudo
	b := newBox(t)
	own := filepath.Join(filepath.Dir(b.codebase), "own", "bwrap")
	b.OK(os.Mkdir(filepath.Dir(own), 0o755))
	path, err := exec.LookPath("bwrap")
	b.OK(err)
	program, err := os.ReadFile(path)
	b.OK(err)
	b.OK(os.WriteFile(own, program, 0o755))
	doctor := func(args ...string) *exec.Cmd {
		b.OK(os.Chmod(own, 0o755|os.ModeSetuid))
		cmd := b.command(append([]string{"doctor", "--fix"}, args...)...)
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(own)+":"+os.Getenv("PATH"))
		return cmd
	}
	fixed := func() bool {
		info, err := os.Stat(own)
		b.OK(err)
		return info.Mode()&fs.ModeSetuid == 0
	}
	out, err := doctor().CombinedOutput()
	if err == nil || fixed() || !strings.Contains(string(out), "chmod u-s "+own+"\n") || !strings.Contains(string(out), "use --yes") {
		t.Errorf("without an answer: got err %v, fixed %v, %s; want the command, and that it was not run", err, fixed(), out)
	}
	for answer, want := range map[string]bool{"n\n": false, "y\n": true} {
		master, slave := openTerminal(b)
		cmd := doctor()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		b.OK(cmd.Start())
		b.OK(slave.Close())
		r, said := bufio.NewReader(master), &strings.Builder{}
		for !strings.HasSuffix(said.String(), "Run them? [y/N] ") {
			one, err := r.ReadByte()
			if err != nil {
				t.Fatalf("it does not ask: %v\n%s", err, said)
			}
			said.WriteByte(one)
		}
		if fixed() {
			t.Error("it has run the command before the answer")
		}
		_, err := master.WriteString(answer)
		b.OK(err)
		_, _ = io.Copy(said, r) // EIO: the command has ended
		err = cmd.Wait()
		b.OK(master.Close())
		if fixed() != want || (err == nil) != want {
			t.Errorf("answer %q: got err %v, fixed %v, %s; want fixed %v", answer, err, fixed(), said, want)
		}
	}
	if out, err := doctor("--yes").CombinedOutput(); err != nil || !fixed() || strings.Count(string(out), "(bwrap-setuid") != 1 {
		t.Errorf("--yes: got err %v, fixed %v, %s; want the problem, and then none", err, fixed(), out)
	}
}
