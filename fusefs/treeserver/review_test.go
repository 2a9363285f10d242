package treeserver

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/rawsock"
)

// An answer goes to a unix stream socket and nothing else: a write to another file could have a thread wait.
func TestAnswerNeedsASocket(t *testing.T) {
	socket := func(domain, kind int) *os.File {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "socket")
	}
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*os.File{
		"nothing": nil, "a pipe": pipe, "a file": file,
		"TCP": socket(unix.AF_INET, unix.SOCK_STREAM), "packets": socket(unix.AF_UNIX, unix.SOCK_SEQPACKET),
	} {
		if s, err := connectionOf(f); err == nil {
			t.Errorf("%s was taken", name)
			_ = s.Close()
		}
		_ = f.Close()
	}
	ours, theirs, err := rawsock.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	s, err := connectionOf(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if s.HungUp() {
		t.Error("hung up at its beginning")
	}
	if _, err := io.WriteString(s, "answer"); err != nil {
		t.Error(err)
	}
	if err := rawsock.CloseWrite(ours); err != nil || !s.HungUp() {
		t.Errorf("the client's wish to stop is not seen: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(ours); string(got) != "answer" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
