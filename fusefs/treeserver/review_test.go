package treeserver

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
)

// An answer goes to a unix stream socket and nothing else: a write to another file could have a
// thread wait.
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
	review := &boot.Review{Do: "nothing", Answer: true}
	server := func() *treeServer {
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return &treeServer{copied: &copied{work: dir, upper: dir}}
	}
	for name, f := range map[string]*os.File{
		"nothing": nil, "a pipe": pipe, "a file": file,
		"TCP": socket(unix.AF_INET, unix.SOCK_STREAM), "packets": socket(unix.AF_UNIX, unix.SOCK_SEQPACKET),
	} {
		if err := server().review(review, f); runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%s was taken: %v", name, err)
		}
	}
	ours, theirs, err := rawsock.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if rawsock.HungUp(theirs) {
		t.Error("hung up at its beginning")
	}
	if err := rawsock.CloseWrite(ours); err != nil || !rawsock.HungUp(theirs) {
		t.Errorf("the client's wish to stop is not seen: %v", err)
	}
	spool, err := newSpool(int(server().copied.work.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.close()
	answer := bufio.NewWriter(spool)
	if _, err := io.WriteString(answer, "answer"); err != nil {
		t.Error(err)
	}
	if err := sendAnswer(theirs, spool, answer); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(ours); string(got) != "answer" || err != nil {
		t.Errorf(`io.ReadAll: got %q, %v; want "answer", nil`, got, err)
	}
}
