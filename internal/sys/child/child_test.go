package child_test

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"wolffia/internal/sys/child"
	"wolffia/internal/test/wait"
)

func TestChild(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := child.Start(&child.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", `read x; echo "$A $PWD $x" `}, Env: []string{"A=b"},
		Files: []*os.File{nil, w, os.Stderr},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	out, err := io.ReadAll(r)
	if err != nil || string(out) != "b / \n" {
		t.Errorf("io.ReadAll: got %q, %v; want %q, nil", out, err, "b / \n")
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if err := c.Kill(); err != nil {
		t.Errorf("kill after the end: %v", err)
	}
}

// A process with threads would wait for the kernel when its table of descriptors grows.
func TestRoom(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = child.Start(&child.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", `ls /proc/$$/fd; readlink /proc/$$/fd/252; sh -c 'grep FDSize /proc/$$/status'`},
		Env: []string{"PATH=/usr/bin:/bin"}, Files: []*os.File{nil, w, os.Stderr}, Room: 253,
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	out, err := io.ReadAll(r)
	if want := "0\n1\n2\n252\n/dev/null\nFDSize:\t256\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

func TestKill(t *testing.T) {
	c, err := child.Start(&child.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Files: []*os.File{nil, nil, nil}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(); err != nil {
		t.Error(err)
	}
	wait.Receive(t, "the end of a killed child", c.Gone())
}

func TestNoSuchProgram(t *testing.T) {
	if _, err := child.Start(&child.Command{Path: "/no/such", Args: []string{"x"}}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("child.Start: got %v, want syscall.ENOENT", err)
	}
}
