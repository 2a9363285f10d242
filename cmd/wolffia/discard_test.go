package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/cmd/wolffia/internal/review"
	"wolffia/internal/test/testenv"
)

// At a terminal, discard asks before it takes all changes, and names commits that would go with them.
func TestDiscardAsks(t *testing.T) {
	testenv.Tools(t, "git")
	b := newBox(t)
	b.OK(os.WriteFile(filepath.Join(b.codebase, "file"), nil, 0o666))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "one"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = b.codebase
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, said)
		}
	}
	b.OK(exec.Command("chmod", "-R", "a+rwX", b.codebase).Run()) // the user to whom root drops
	b.says("rm", "-f", "box")
	b.says("create", "--cow", "--codebase", b.codebase, "--name", "box")
	inside := func(script string) {
		b.says("exec", "box", "--", "sh", "-c", "set -e; g='git -c user.name=a -c user.email=a@example.com'; "+script)
	}
	discard := func(answer, question string, args ...string) string {
		b.Helper()
		master, slave := openTerminal(b)
		cmd := b.command(append([]string{"discard"}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		b.OK(cmd.Start())
		b.OK(slave.Close())
		r, said := bufio.NewReader(master), &strings.Builder{}
		for answer != "" && !strings.HasSuffix(said.String(), "[y/N] ") {
			one, err := r.ReadByte()
			if err != nil {
				b.Fatalf("it does not ask: %v\n%s", err, said)
			}
			said.WriteByte(one)
		}
		if got := said.String(); answer != "" && got != "Discard "+question+"? [y/N] " {
			b.Errorf("it asks %q, want %q", got, question)
		}
		_, err := master.WriteString(answer)
		b.OK(err)
		_, _ = io.Copy(said, r) // EIO: the command has ended
		b.OK(cmd.Wait())
		b.OK(master.Close())
		return said.String()
	}
	inside("git branch side")
	discard("n\n", review.GitsFiles, "box")
	inside("echo x >y; git add y; $g commit -q -m inside; echo x >z")
	discard("n\n", "2 changes: 2 added; and commits, 1 that the host does not have", "box")
	discard("n\n", "commits, 1 that the host does not have", "box", ".git")
	if said := discard("", "", "box", "z"); !strings.Contains(said, "discarded: 1 change") {
		b.Errorf("without the commits it says %q", said)
	}
	if said := discard("y\n", "1 change: 1 added; and commits, 1 that the host does not have", "box"); !strings.Contains(said, "discarded: 1 change; 1 commit") {
		b.Errorf("it says %q", said)
	}
}
