package shim

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/internal/host/boot"
	"wolffia/internal/sys/proc"
	"wolffia/runtime"
)

const (
	// nameLimit is how long a name waits that is to be made or removed in a directory: the kernel
	// has the directory locked.
	nameLimit = 10 * time.Second

	maxCommand   = 512                    // bytes of a command line
	commandLimit = 200 * time.Millisecond // to read it
)

// question has asked a question of the tree server's, and sends the answer, unless the tree server
// needs none any more. It ends with that.
func (s *shim) question(ctx context.Context, id uint64, q *runtime.Question) {
	limit := s.boot.Config.AskLimitOrDefault()
	if q.Dir {
		limit = min(limit, nameLimit)
	}
	allowed, by := false, ""
	if s.boot.Config.Asks(q.Kind) {
		q.PID, q.Program = processOf(q.PID)
		q.Command = commandLine(q.PID)
		allowed, by = s.asks.askWho(ctx, q, limit)
	}
	if ctx.Err() == nil {
		s.tree.verdict(&boot.TreeRequest{Op: boot.AskVerdict, Asked: id, Allowed: allowed, By: by})
	}
}

// processOf returns the process of a thread, which waits, and the process's name.
func processOf(tid int) (pid int, name string) {
	if words, err := proc.Status(tid, "Tgid"); err == nil && len(words) == 1 {
		pid, _ = strconv.Atoi(words[0])
	}
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return pid, audit.Printable(strings.TrimSuffix(string(text), "\n"))
}

// commandLine returns the command line of a process, printable, and cut at maxCommand. Its memory
// may be locked as long as it waits for the tree, or be a file there: so the tree server must not
// read it, and nobody wait for it long.
func commandLine(pid int) string {
	if pid <= 0 {
		return ""
	}
	read := make(chan []byte, 1)
	go func() { // ends with the read
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil {
			read <- nil
			return
		}
		defer f.Close()
		buf := make([]byte, maxCommand+1)
		n, _ := f.Read(buf)
		read <- buf[:n]
	}()
	select {
	case text := <-read:
		return printableCommand(text)
	case <-time.After(commandLimit):
		return ""
	}
}

// printableCommand returns a command line of NUL-terminated arguments for a person to read.
func printableCommand(text []byte) string {
	words := bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '})
	if line := audit.Printable(string(words)); len(line) <= maxCommand {
		return line
	}
	for n := len(words); ; n /= 2 { // escapes make it up to four times as long
		if line := audit.Printable(string(words[:n])); len(line) <= maxCommand-3 {
			return line + "..."
		}
	}
}
