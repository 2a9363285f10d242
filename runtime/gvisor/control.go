package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// pauseLimit is how long gVisor's kernel may take to stop or continue all programs.
const pauseLimit = 10 * time.Second

// maxAnswer bounds an answer of gVisor's kernel, in bytes. An error may quote a configuration.
const maxAnswer = 1 << 20

// control calls a method of gVisor's kernel without an argument.
func control(state, tag, method string) error { return call(state, tag, method, nil, pauseLimit) }

// call calls a method of gVisor's kernel by the socket in runsc's state directory, as runsc
// does: one JSON object each way, with files (pkg/urpc of gVisor). runsc itself would have to run
// in the namespaces of the sandbox's runsc, and takes twenty times as long. The kernel may be
// hostile: its answer, and the wait for it, are bounded.
func call(state, tag, method string, arg any, limit time.Duration, files ...*os.File) error {
	err := exchange(filepath.Join(state, "runsc-"+tag+".sock"), method, arg, limit, files)
	if err != nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "gVisor: %s: %w", method, err)
	}
	return err
}

// exchange is call for a socket, whose path may be too long for an address (unix(7)).
func exchange(socket, method string, arg any, limit time.Duration, files []*os.File) error {
	fd, err := unix.Open(socket, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: "/proc/self/fd/" + strconv.Itoa(fd)})
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	text, err := json.Marshal(map[string]any{"method": method, "arg": arg})
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(text, rights, nil); err != nil {
		return err
	}
	var answer struct {
		Success bool   `json:"success"`
		Err     string `json:"err"`
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if !answer.Success {
		return errors.New(answer.Err)
	}
	return nil
}

// pause stops all programs. If the kernel does not answer in time, it stops none.
func pause(state, tag string) error {
	err := control(state, tag, methodPause)
	if errors.Is(err, os.ErrDeadlineExceeded) { // else it has not begun
		err = errors.Join(err, control(state, tag, methodResume))
	}
	return err
}

// The methods of gVisor's kernel that stop all programs of a sandbox, have them continue, and write
// their memory to files.
const (
	methodPause  = "containerManager.Pause"
	methodResume = "containerManager.Resume"
	methodSave   = "containerManager.Checkpoint"
)
