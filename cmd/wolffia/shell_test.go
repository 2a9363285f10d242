package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A sandbox that shell has created survives a detach, whose note says how to come back, and
// ends with its shell. Others stay. The prompt names sandbox and directory.
func TestShell(t *testing.T) {
	b := newBox(t)
	// shell runs wolffia shell, and types text when the prompt has come.
	shell := func(text string, args ...string) (prompt, said string) {
		b.Helper()
		master, slave := openTerminal(b)
		cmd := b.command(append([]string{"shell"}, args...)...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.codebase, slave, slave, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		b.OK(cmd.Start())
		b.OK(slave.Close())
		r := bufio.NewReader(master)
		prompt, err := r.ReadString('$')
		b.OK(err)
		_, err = master.WriteString(text)
		b.OK(err)
		_, _ = io.Copy(io.Discard, r) // EIO: the command has ended
		if err := cmd.Wait(); err != nil {
			b.Errorf("shell %v: %v: %s", args, err, stderr.Bytes())
		}
		b.OK(master.Close())
		return prompt, stderr.String()
	}
	prompt, said := shell("\x10\x11", "--name", "made.by-shell")
	if want := "[wolffia:made.by-shell] " + b.codebase; !strings.Contains(prompt, want) {
		b.Errorf("the prompt is %q, want %q", prompt, want)
	}
	for _, want := range []string{"wolffia shell ", "wolffia rm -f ", "end its shell"} {
		if !strings.Contains(said, want) {
			b.Errorf("a detach says %q, without %q", said, want)
		}
	}
	b.OK(os.WriteFile(filepath.Join(b.codebase, ".env"), []byte("SECRET\n"), 0o600))
	if _, said := shell("cat .env; exit 0\n", "made.by-shell"); !strings.Contains(said, "denied by the rules: lookup .env") || !strings.Contains(said, "; to allow it: wolffia ") {
		b.Errorf("a shell that was denied a file ends with %q", said)
	}
	shell("exit\n", "box")
	if left := b.says("ls"); strings.Contains(left, "made.by-shell") || !strings.Contains(left, " box ") {
		b.Errorf("left:\n%s", left)
	}
}

// What is changed in a shell with --cow is not lost when the shell ends: it asks, as run does, also if the sandbox was detached
// from before, and what is kept is reviewed at the next end.
func TestShellAsksForTheChanges(t *testing.T) {
	b := newBox(t)
	b.says("rm", "-f", "box")
	note := filepath.Join(b.codebase, "note")
	const ask = "discard [x]: "
	// shell runs wolffia shell, and types each text after what comes before it.
	shell := func(code int, typed [][2]string, args ...string) string {
		b.Helper()
		master, slave := openTerminal(b)
		cmd := b.command(append([]string{"shell"}, args...)...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.codebase, slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		b.OK(cmd.Start())
		b.OK(slave.Close())
		r, said := bufio.NewReader(master), &strings.Builder{}
		for _, step := range typed {
			for from := said.Len(); !strings.Contains(said.String()[from:], step[0]); {
				one, err := r.ReadByte()
				if err != nil {
					b.Fatalf("shell %v: %q does not come: %v\n%s", args, step[0], err, said)
				}
				said.WriteByte(one)
			}
			_, err := master.WriteString(step[1])
			b.OK(err)
		}
		_, _ = io.Copy(said, r) // EIO: the command has ended
		_ = cmd.Wait()
		b.OK(master.Close())
		if got := cmd.ProcessState.ExitCode(); got != code {
			b.Errorf("shell %v: exit code %d, want %d:\n%s", args, got, code, said)
		}
		return said.String()
	}
	left := func() string { return strings.TrimSpace(b.says("ls", "-q")) }

	said := shell(0, [][2]string{{"$", "\x10\x11"}}, "--cow", "--name", "made.by-shell")
	if !strings.Contains(said, "end its shell, which asks what becomes of the changes") {
		b.Errorf("a detach says %q", said)
	}
	said = shell(4, [][2]string{{"$", "echo precious >>note; exit 4\n"}, {ask, "k\n"}}, "made.by-shell")
	if !strings.Contains(said, "the changes are kept in sandbox "+left()) || left() == "" {
		b.Errorf("it keeps %q:\n%s", left(), said)
	}
	shell(0, [][2]string{{"$", "exit\n"}, {ask, "a\n"}}, "made.by-shell")
	if got, err := os.ReadFile(note); err != nil || string(got) != "precious\n" {
		b.Errorf("the host has %q: %v", got, err)
	}
	shell(0, [][2]string{{"$", "rm note; exit\n"}, {ask, "x\n"}}, "--cow")
	shell(0, [][2]string{{"$", "exit\n"}}, "--cow")
	if _, err := os.Stat(note); err != nil || left() != "" {
		b.Errorf("left: %q, %v", left(), err)
	}
}
