package main

import (
	"bufio"
	"bytes"
	"io"
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
	shell("exit\n", "made.by-shell")
	shell("exit\n", "box")
	if left := b.says("ls"); strings.Contains(left, "made.by-shell") || !strings.Contains(left, " box ") {
		b.Errorf("left:\n%s", left)
	}
}
