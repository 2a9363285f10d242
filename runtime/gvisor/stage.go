package gvisor

import (
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
	"wolffia/runtime"
)

// stageArg is the first argument of wolffia for stage; runsc's own arguments follow.
const stageArg = "runsc"

// The descriptors of stage and of runsc. Processes of the sandbox that inherit the memory's learn
// nothing by them: it is their own, and cannot be written.
const (
	fdProgram = 3 // runsc
	fdMemory  = 4 // launch.Spec.Memory, but for the record
)

// stage mounts the /proc of its process namespace, which runsc expects and only a process in the
// namespace can mount, and executes runsc once the shim has said that it is there. It returns only
// with an error.
func stage() error {
	if os.Getpid() != 1 {
		return runtime.Errorf(runtime.ErrInvalid, "this is started by wolffia, not by hand")
	}
	// The mount does not propagate: all mounts copied into a namespace of another user
	// namespace are slaves (mount_namespaces(7)).
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for runsc: %w", err)
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return fmt.Errorf("start runsc: the shim has ended: %w", err)
	}
	// From here on no execve(2) adds capabilities. So runsc, with our patches, need not drop those
	// that it could add from the bounding sets of its threads: some 40 calls of all threads, in
	// each of two processes.
	goruntime.LockOSThread() // it is a thread's setting
	defer goruntime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("start runsc: prctl PR_SET_NO_NEW_PRIVS: %w", err)
	}
	err := child.Exec("/proc/self/fd/"+strconv.Itoa(fdProgram), append([]string{"runsc"}, os.Args[2:]...), []string{})
	return fmt.Errorf("start runsc: %w", err)
}

// tellStage says to stage that the shim is there, by one byte ahead of PID 1's stream. The kernel
// ends runsc with the thread that has started it from when it was asked to (Pdeathsig in attr),
// and that thread says this afterwards. If it had ended before, nothing else would tell:
// getppid(2) does not in a process namespace. That stage has ended shows at the end of the stream.
func tellStage(stream io.Writer) { _, _ = stream.Write([]byte{0}) }
