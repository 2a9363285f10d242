package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// At a terminal, run --cow asks what becomes of the changes. What is neither applied nor discarded is kept,
// also if the answer is the end of the input, or an interrupt.
func TestReviewAtTheEnd(t *testing.T) {
	const work = "echo more >>one; rm two; echo new >three"
	const ask = "discard [x]: "
	for _, c := range []struct {
		name  string
		types []string // each after the question before it
		after []string // the questions
		says  []string // what comes, in this order
		host  string   // the files one, two, three
		kept  bool
	}{
		{"Apply", []string{"a\n"}, []string{ask}, []string{"3 changes", "applied: 3 changes"}, "one\nmore\n|-|new\n", false},
		{"Discard", []string{"x\n"}, []string{ask}, nil, "one\n|two\n|-", false},
		{"Keep", []string{"what?\n", "k\n"}, []string{ask, ask}, []string{"the changes are kept in sandbox"}, "one\n|two\n|-", true},
		{"Diff", []string{"d\n", "\x04"}, []string{ask, ask}, []string{"+more", "+new", "-two", "the changes are kept in sandbox"}, "one\n|two\n|-", true},
		{
			"Choose",
			[]string{"c\n", "d\n", "y\n", "n\n", "y\n", "x\n"},
			[]string{ask, "M one", "+more", "A three", "D two", ask},
			[]string{"[q]uit: ", "+more", "applied: 2 changes", "left: 1 change", "discard [x]: "},
			"one\nmore\n|-|-", false,
		},
		{"QuitChoosing", []string{"c\n", "y\n", "q\n", "k\n"}, []string{ask, "M one", "A three", ask}, []string{"applied: 1 change", "left: 2 changes", "are kept"}, "one\nmore\n|two\n|-", true},
		{"EndOfInput", []string{"\x04"}, []string{ask}, []string{"the changes are kept in sandbox"}, "one\n|two\n|-", true},
		{"Interrupt", []string{"\x03"}, []string{ask}, []string{"the changes are kept in sandbox"}, "one\n|two\n|-", true},
		{"InterruptChoosing", []string{"c\n", "\x03"}, []string{ask, "M one"}, []string{"the changes are kept in sandbox"}, "one\n|two\n|-", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newParallelBox(t)
			for _, name := range []string{"one", "two"} {
				b.OK(os.WriteFile(filepath.Join(b.codebase, name), []byte(name+"\n"), 0o666))
				b.OK(os.Chmod(filepath.Join(b.codebase, name), 0o666))
			}
			b.says("rm", "-f", "box")
			master, slave := openTerminal(b)
			cmd := b.command("run", "--cow", "--codebase", b.codebase, "--", "sh", "-c", work)
			cmd.Env = append(cmd.Env, "PAGER=cat", "NO_COLOR=1")
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.codebase, slave, slave, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			b.OK(cmd.Start())
			b.OK(slave.Close())
			r, said := bufio.NewReader(master), &strings.Builder{}
			for i, text := range c.types {
				from := said.Len()
				for !strings.Contains(said.String()[from:], c.after[i]) || !strings.HasSuffix(said.String(), ": ") {
					one, err := r.ReadByte()
					if err != nil {
						t.Fatalf("it does not ask %q: %v\n%s", c.after[i], err, said)
					}
					said.WriteByte(one)
				}
				_, err := master.WriteString(text)
				b.OK(err)
			}
			_, _ = io.Copy(said, r) // EIO: the command has ended
			_ = cmd.Wait()
			b.OK(master.Close())
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d, want the command's own", code)
			}
			text := strings.ReplaceAll(said.String(), "\r", "")
			if !inOrder(text, c.says) {
				t.Errorf("it says\n%s\nwant %q", text, c.says)
			}
			var host []string
			for _, name := range []string{"one", "two", "three"} {
				content, err := os.ReadFile(filepath.Join(b.codebase, name))
				if err != nil {
					content = []byte("-")
				}
				host = append(host, string(content))
			}
			if got := strings.Join(host, "|"); got != c.host {
				t.Errorf("the host has %q, want %q", got, c.host)
			}
			if left := strings.TrimSpace(b.says("ls", "-q")); (left != "") != c.kept {
				t.Errorf("sandboxes left: %q, want some: %v", left, c.kept)
			} else if c.kept && !strings.Contains(text, "wolffia diff "+left) {
				t.Errorf("it does not say how to come back to %s:\n%s", left, text)
			}
		})
	}
}

// What is typed while the pager shows the diff is the pager's, and none of it is an answer to the next question.
func TestPagerHasTheKeyboard(t *testing.T) {
	t.Parallel()
	b := newParallelBox(t)
	b.says("rm", "-f", "box")
	const presses = 20 // any of which could be lost
	pager := filepath.Join(t.TempDir(), "pager")
	b.OK(os.WriteFile(pager, []byte(`cat >/dev/null
for i in `+strings.Repeat("x ", presses)+`; do
	printf 'key: '
	read -r key </dev/tty
	printf 'the pager has %s\n' "$key"
done
`), 0o600))
	master, slave := openTerminal(b)
	cmd := b.command("run", "--cow", "--codebase", b.codebase, "--", "touch", "new")
	cmd.Env = append(cmd.Env, "PAGER=sh "+pager, "NO_COLOR=1")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.codebase, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	b.OK(cmd.Start())
	b.OK(slave.Close())
	hang := time.AfterFunc(time.Minute, func() { _ = master.Close(); _ = cmd.Process.Kill() })
	defer hang.Stop()
	r, said := bufio.NewReader(master), &strings.Builder{}
	answer := func(question, text string) {
		for from := said.Len(); !strings.HasSuffix(said.String()[from:], question); {
			one, err := r.ReadByte()
			if err != nil {
				t.Fatalf("it does not ask %q: %v\n%s", question, err, said)
			}
			said.WriteByte(one)
		}
		_, err := master.WriteString(text)
		b.OK(err)
	}
	answer("discard [x]: ", "d\n")
	for range presses {
		answer("key: ", "a\n")
	}
	answer("discard [x]: ", "k\n")
	_, _ = io.Copy(said, r) // EIO: the command has ended
	_ = cmd.Wait()
	if got := strings.Count(said.String(), "the pager has a"); got != presses || !strings.Contains(said.String(), "are kept") {
		t.Errorf("the pager has got %d of %d:\n%s", got, presses, said)
	}
}

// inOrder reports whether text has all parts, one behind the other.
func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, after, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = after
	}
	return true
}
