package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A World is what an attacker knows of the host: more than one would.
type World struct {
	Dir      string // on the host, readable by all; the codebase is Dir/code
	PID      int    // of a process of the caller's on the host
	UID      int    // of the sandbox
	Marker   string // the value of a variable of that process, which no process inside may see
	Port     int    // where the host listens on 127.0.0.1
	Abstract string // the abstract socket on which it does
	Key      int    // of the caller's own System V memory
	Shm      string // of a file of the caller's own in /dev/shm
	Tag      string // names what another sandbox has left
	TagPort  int    // where another sandbox listens on 127.0.0.1, or 0
	Hostname string
	State    string // wolffia's own directory, as its path in its file system
	OverHost bool   // root inside has the host's own system
}

// The names in the codebase, by what the rules say of them. The attacker may
// change all others.
var Rules = []string{"**=write", "*.none=none", "*.view=view", "*.read=read", "dir.read/=read", "dir.none/=none"}

// patience is how long one row may take inside.
const patience = 2 * time.Minute

// Main is the program inside:
//
//	inside rows WORLD ID...  does rows, those of a group in one process; prints ID TAB OBSERVATION for each
//	inside row WORLD ID...   does rows in this process
//	inside ROLE ARG...       a part of a row: see roles
func Main(args []string) int {
	if len(args) < 2 {
		return 2
	}
	if role, ok := roles[args[1]]; ok {
		return role(args[2:])
	}
	if len(args) < 4 {
		return 2
	}
	switch args[1] {
	case "rows":
		for ids := args[3:]; len(ids) > 0; {
			group, _, _ := strings.Cut(ids[0], ".")
			n := slices.IndexFunc(ids, func(id string) bool { return !strings.HasPrefix(id, group+".") })
			if n < 0 {
				n = len(ids)
			}
			ids = ids[apart(args[2], ids[:n]):]
		}
	case "row":
		var w World
		if json.Unmarshal([]byte(args[2]), &w) != nil {
			return 2
		}
		runtime.LockOSThread() // some of what a row does is a thread's
		for _, id := range args[3:] {
			row, ok := Find(id)
			if !ok || row.Do == nil {
				return 2
			}
			fmt.Printf("%s\t%s\n", id, row.Do(&w))
		}
	default:
		return 2
	}
	return 0
}

// roles are what other processes of a row do.
var roles = map[string]func(args []string) int{
	"wait":  func([]string) int { time.Sleep(time.Hour); return 0 },
	"true":  func([]string) int { return 0 },
	"crash": func([]string) int { return int(*(*byte)(nil)) },
}

// self is this program, however it was started.
const self = "/proc/self/exe"

// start starts this program in another role.
func start(args ...string) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: self, Args: append([]string{"inside"}, args...), Stderr: os.Stderr}
	return cmd, cmd.Start()
}

// apart does rows in a process of their own, until one ends it. It returns how many it has done.
func apart(world string, ids []string) (done int) {
	cmd := &exec.Cmd{Path: self, Args: append([]string{"inside", "row", world}, ids...), Stdin: os.Stdin}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	cmd.WaitDelay = time.Second // children that hold the pipe
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Printf("%s\tfails: %v\n", ids[0], err)
		return 1
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	for lines := bufio.NewScanner(out); done < len(ids) && lines.Scan(); done++ {
		fmt.Println(lines.Text())
		late.Reset(patience)
	}
	_ = cmd.Wait()
	if done == len(ids) {
		return done
	}
	how := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if how.Signaled() {
		fmt.Printf("%s\t%s\n", ids[done], unix.SignalName(how.Signal()))
	} else {
		fmt.Printf("%s\tfails: %v: %.300q\n", ids[done], cmd.ProcessState, complaint.String())
	}
	return done + 1
}

// said is the observation that an error is.
func said(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "works"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return "fails: " + err.Error()
}

// does makes a row's Do of a function that only succeeds or fails.
func does(f func(w *World) error) func(*World) string {
	return func(w *World) string { return said(f(w)) }
}

// open opens a path, and closes it.
func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// covered is open's observation, or that the path is covered by an empty
// directory or the null device.
func covered(path string, flags int) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		entries, err := os.ReadDir(path)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && err == nil && len(entries) == 0 {
			return "empty"
		}
		if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
			return "empty"
		}
	}
	return said(open(path, flags))
}

// closed makes one observation of the ways in which there is nothing to be had:
// which of them it is depends on how the host's kernel was built.
func closed(observation string) string {
	switch Judge(observation) {
	case Refused, Hidden, Empty:
		return "refused " + observation
	}
	return observation
}

// sys makes a system call with up to six arguments.
//
//go:uintptrescapes
func sys(nr uintptr, args ...uintptr) (uintptr, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return r, errno
	}
	return r, nil
}

// write replaces a file's content, and makes it.
func write(name, content string) error {
	return os.WriteFile(name, []byte(content), 0o600)
}
