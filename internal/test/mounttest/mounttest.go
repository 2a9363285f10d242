// Package mounttest runs a test of a mounted tree in two processes. The parent is the host and
// serves the tree. The child, the same test in user and mount namespaces of its own, mounts it
// and uses it with no more rights than a sandbox. When it ends, the kernel unmounts the tree.
package mounttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// UID is the user and group of the child, in its user namespace.
const UID = 1000

// Limit is how long a child may run: longer with all cases.
var Limit = func() time.Duration {
	if testenv.Full() {
		return 30 * time.Minute
	}
	return 5 * time.Minute
}()

const (
	argsEnv    = "WOLFFIA_MOUNTTEST_CHILD"   // the JSON of Start's args; only in a child
	mountedEnv = "WOLFFIA_MOUNTTEST_MOUNTED" // set in a child that has mounted
)

// A Child is the process that mounts, as seen by its parent.
type Child struct {
	Conn   *net.UnixConn   // to what Inside returns
	Device *os.File        // of the mounted tree
	Ctx    context.Context // ends after Limit
	PID    int

	out  bytes.Buffer
	done chan struct{}
	err  error // of the process; valid when done is closed
}

// Start starts test t in a child, where Inside fills in args, and returns when it has mounted.
// The end of the test ends the child.
func Start(t *testing.T, args any) *Child {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "child")
	defer theirs.Close()
	file := os.NewFile(uintptr(pair[0]), "parent")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	env, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	c := &Child{Conn: conn.(*net.UnixConn), Ctx: ctx, done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run="+testenv.Exactly(t), "-test.v", "-test.timeout="+Limit.String())
	cmd.Env = append(os.Environ(), argsEnv+"="+string(env))
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &c.out, &c.out
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: UID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: UID, HostID: os.Getgid(), Size: 1}},
		// Only what mounting needs: other capabilities would hide that presented modes are wrong.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.PID = cmd.Process.Pid
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-c.done
		_ = c.Conn.Close()
	})
	if c.Device, err = receive(c.Conn); err != nil {
		cancel()
		<-c.done
		t.Fatalf("no descriptor from the child: %v\n%s", err, &c.out)
	}
	return c
}

// receive reads the descriptor that Inside sends, and waits until the child has executed itself again:
// during execve(2) its /proc/PID/root can be missing.
func receive(conn *net.UnixConn) (*os.File, error) {
	if err := conn.SetReadDeadline(time.Now().Add(Limit / 2)); err != nil {
		return nil, err
	}
	defer conn.SetReadDeadline(time.Time{})
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err == nil && len(msgs) == 1 {
		fds, err = unix.ParseUnixRights(&msgs[0])
	}
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%d descriptors instead of one", len(fds))
	}
	unix.CloseOnExec(fds[0])
	device := os.NewFile(uintptr(fds[0]), "/dev/fuse")
	if _, err := conn.Read(buf); err != nil {
		device.Close()
		return nil, fmt.Errorf("the child has not executed itself again: %w", err)
	}
	return device, nil
}

// Wait waits for the end of the child, and passes on its output and result to t. It then waits
// until served returns: the tree must not be served any longer.
func (c *Child) Wait(t *testing.T, served func()) {
	t.Helper()
	<-c.done
	out := c.out.String()
	if c.err != nil {
		t.Errorf("child: %v", c.err)
	}
	if c.err != nil || testing.Verbose() {
		t.Log("\n" + out)
	}
	skipped := c.err == nil && strings.Contains(out, "--- SKIP: "+t.Name()+" ")
	if c.err == nil && !skipped && !strings.Contains(out, "--- PASS: "+t.Name()+" ") {
		t.Errorf("the child did not run the test:\n%s", out)
	}
	gone := make(chan struct{})
	go func() { served(); close(gone) }()
	select {
	case <-gone:
	case <-c.Ctx.Done():
		t.Fatal("the tree is still served after the end of the child")
	}
	if skipped {
		t.Skip("skipped by the child")
	}
}

// Inside returns nil in the parent. In the child it fills in args, calls mount, gives up the right
// to mount, and returns the connection to the parent. To give up the right in all threads it
// executes the test again, after which it does not call mount.
func Inside(t *testing.T, args any, mount func() (*os.File, error)) net.Conn {
	t.Helper()
	env := os.Getenv(argsEnv)
	if env == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(env), args); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(3, "parent")
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(mountedEnv) == "" {
		t.Fatal(mountAndExec(conn.(*net.UnixConn), mount))
	}
	file.Close()
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	return conn
}

func mountAndExec(conn *net.UnixConn, mount func() (*os.File, error)) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	dev, err := mount()
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix([]byte{1}, unix.UnixRights(int(dev.Fd())), nil); err != nil {
		return err
	}
	dev.Close()
	unix.Umask(0o022)
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if err := os.Setenv(mountedEnv, "1"); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(3, unix.F_SETFD, 0); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}
