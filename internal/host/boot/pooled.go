package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
)

// Pooled are the further parameters of the shim of a pooled sandbox.
type Pooled struct {
	IdleMS int64 `json:"idleMs"` // after which the sandbox ends, unclaimed
	// Published is statedir.PooledState.PublishedPath: the shim unlinks it before the idle timeout
	// ends the sandbox.
	Published string `json:"published"`
	Shell     *Shell `json:"shell,omitempty"` // started ahead; nil: no shell is
	// Tree says that the tree server serves the codebase by its rules from the start, and that the
	// shim fills the kernel's caches before it is ready. A claimant with another codebase or other
	// rules is refused.
	Tree bool `json:"tree,omitempty"`
}

// A Shell is the first session's shell.
type Shell struct {
	Env []string `json:"env"` // the whole environment, as KEY=VALUE
	Dir string   `json:"dir"` // the working directory
}

// Each client of a pooled sandbox's socket sends one PooledRequest, in one call and with its
// descriptors, and gets one Report. After OpActivate the connection is one to a shim that is
// ready. Before that the shim accepts no frames.

// The operations of a PooledRequest.
const (
	OpActivate = AskActivate // become the sandbox of Config
	OpEnd      = "end"       // end, unless the sandbox is active
	// OpWarmUp does what OpActivate does, but changes nothing. Only the shim itself sends it.
	OpWarmUp = AskWarmUp
)

// A PooledRequest is a request to the shim of a pooled sandbox.
type PooledRequest struct {
	Op string `json:"op"`
	// Config is the sandbox's, for OpActivate, without what only the tree server and the caller
	// read: its rules are in a descriptor.
	Config   *statedir.Config   `json:"config,omitempty"`
	Lifetime *statedir.Lifetime `json:"lifetime,omitempty"`
}

// The descriptors of OpActivate, in this order.
const (
	ActivateRules  = iota // of SealedFile; with Pooled.Tree they are those that it has already
	ActivateConfig        // config.json, to sync it
	ActivateAlive         // hangs up when the caller ends; used if BoundToCaller
	activateFiles
)

// Threads starts n threads, so that n goroutines can block in the kernel without starting one. A
// pooled sandbox calls it before it is claimed.
func Threads(n int) {
	var there, over sync.WaitGroup
	there.Add(n)
	for range n {
		over.Go(func() { // ends when each has a thread
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			there.Wait()
		})
	}
	over.Wait()
}

// ActivateLimit is how long a pooled sandbox may take to answer OpActivate, and to end.
const ActivateLimit = 10 * time.Second

// SendPooled sends a request with its descriptors. It does not block: a full socket is an error.
func SendPooled(s syscall.Conn, r *PooledRequest, files ...*os.File) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > MaxPacket {
		return errCut
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	n := 0
	cerr := raw.Control(func(fd uintptr) {
		n, err = unix.SendmsgN(int(fd), b, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if err == nil && cerr == nil && n < len(b) {
		err = errCut
	}
	return errors.Join(cerr, err)
}

// packetBuffers has the buffers of packetBuffer: new ones were two fifths of what a start from a
// pool allocates.
var packetBuffers = sync.Pool{New: func() any { return new([MaxPacket]byte) }}

// packetBuffer returns a buffer for one packet. The caller calls release when it no longer uses
// the buffer.
func packetBuffer() (buf []byte, release func()) {
	b := packetBuffers.Get().(*[MaxPacket]byte)
	return b[:], func() { packetBuffers.Put(b) }
}

// ReceivePooled waits for a request. The caller closes the files, after an error too; some may be
// nil.
func ReceivePooled(s syscall.Conn) (*PooledRequest, [activateFiles]*os.File, error) {
	var files [activateFiles]*os.File
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, files, err
	}
	buf, release := packetBuffer()
	defer release()
	oob := make([]byte, unix.CmsgSpace(4*int(activateFiles)))
	var n, oobn int
	cerr := raw.Read(func(fd uintptr) bool {
		err = unix.EINTR
		for errors.Is(err, unix.EINTR) {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
		}
		return true
	})
	if err := errors.Join(cerr, err); err != nil {
		return nil, files, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, files, err
	}
	count := 0
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, files, err
		}
		for _, fd := range fds { // the kernel rounds the space up: there may be one too many
			if count == len(files) {
				_ = unix.Close(fd)
				continue
			}
			files[count] = os.NewFile(uintptr(fd), "received")
			count++
		}
	}
	r := new(PooledRequest)
	if err := json.Unmarshal(buf[:n], r); err != nil {
		return nil, files, fmt.Errorf("request to a pooled sandbox: %w", err)
	}
	return r, files, nil
}

// A PooledSocket is an end of a connection between a pooled sandbox and its client: a
// rawsock.Socket.
type PooledSocket interface {
	io.Writer
	SendFile(b []byte, file syscall.Conn) error
	ReceiveFile(buf []byte) (b []byte, file *os.File, err error)
}

// AnswerPooled sends the answer to a request, with a file if that is not nil.
func AnswerPooled(s PooledSocket, r Report, file *os.File) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if file != nil {
		return s.SendFile(b, file)
	}
	_, err = s.Write(b)
	return err
}

// ReceivePooledAnswer waits for the answer to a request, which is the first on a connection. The
// caller closes the file, which may be nil.
func ReceivePooledAnswer(s PooledSocket) (r Report, file *os.File, err error) {
	buf, release := packetBuffer()
	defer release()
	b, file, err := s.ReceiveFile(buf)
	if errors.Is(err, unix.EMFILE) && len(b) > 0 {
		err = nil // no descriptor is left for the file, but the answer is valid
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, file, err
}
