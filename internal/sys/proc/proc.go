// Package proc reads the state of processes from /proc. It finds those of a process
// tree, and signals them.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Process is what is in /proc/PID/stat, as far as it is needed; see
// proc_pid_stat(5).
type Process struct {
	PID, Parent, Group, Session int
	Start                       uint64 // in clock ticks since boot
	State                       byte
	Terminal                    bool // it has a controlling terminal
	// CPU is how long it has computed, in clock ticks, with the children that it has waited for.
	CPU uint64
}

// Dead reports whether the process is a zombie: it has ended, and its parent has not
// waited for it.
func (p *Process) Dead() bool { return p.State == 'Z' || p.State == 'X' }

// Others lists the processes of the namespace whose /proc is mounted, the
// caller left out; nothing without /proc.
func Others() []Process {
	self := os.Getpid()
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	pids, _ := PIDs(dir)
	var all []Process
	for _, pid := range pids {
		if pid == self {
			continue
		}
		if p, err := Read(pid); err == nil { // an error: it has ended since
			all = append(all, p)
		}
	}
	return all
}

// PIDs lists the processes of a PID namespace, those of nested ones too, by its /proc, an open
// directory (proc(5)). It reads the directory to its end. With an error the list is not complete.
func PIDs(dir *os.File) (pids []int, err error) {
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// Read returns the process with that number. It takes three system calls, where os.ReadFile takes
// ten: it is done for each process of a namespace.
func Read(pid int) (Process, error) {
	name := "/proc/" + strconv.Itoa(pid) + "/stat"
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Process{}, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var buffer [1024]byte // the fields that are needed take half of it
	n, err := unix.Read(fd, buffer[:])
	_ = unix.Close(fd)
	if err != nil {
		return Process{}, &os.PathError{Op: "read", Path: name, Err: err}
	}
	stat := buffer[:n]
	p, ok := parse(pid, stat)
	if !ok {
		return Process{}, fmt.Errorf("%s: unknown format %q", name, stat)
	}
	return p, nil
}

// parse counts the fields from the closing parenthesis of the command's name,
// which may hold any byte.
func parse(pid int, stat []byte) (Process, bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return Process{}, false
	}
	f := bytes.Fields(stat[i+1:]) // state ppid pgrp session ... starttime is the 20th
	if len(f) < 20 {
		return Process{}, false
	}
	p := Process{PID: pid, State: f[0][0]}
	var errs [8]error
	p.Parent, errs[0] = strconv.Atoi(string(f[1]))
	p.Group, errs[1] = strconv.Atoi(string(f[2]))
	p.Session, errs[2] = strconv.Atoi(string(f[3]))
	p.Terminal = string(f[4]) != "0"
	p.Start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	for i, field := range f[11:15] { // of itself and of children, in user mode and in the kernel's
		var n uint64
		n, errs[4+i] = strconv.ParseUint(string(field), 10, 64)
		p.CPU += n
	}
	return p, errors.Join(errs[:]...) == nil
}

// Status returns the words behind a key of /proc/ID/status, such as "Uid", of a
// process or thread (proc_pid_status(5)).
func Status(id int, key string) ([]string, error) {
	name := "/proc/" + strconv.Itoa(id) + "/status"
	status, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(status)) {
		if words, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Fields(words), nil
		}
	}
	return nil, fmt.Errorf("%s: no %s", name, key)
}

// Ignores reports whether a process ignores a signal.
func Ignores(pid int, sig unix.Signal) bool { return SignalsOf(pid).Ignored.Has(sig) }

// Catches reports whether a process has a handler for a signal.
func Catches(pid int, sig unix.Signal) bool { return SignalsOf(pid).Caught.Has(sig) }

// A SignalSet is a set of signals.
type SignalSet uint64

// Has reports whether a signal is in the set.
func (s SignalSet) Has(sig unix.Signal) bool { return s>>(uint(sig)-1)&1 == 1 }

// Signals says what a process does with signals, and which it has yet to take.
type Signals struct{ Blocked, Ignored, Caught, Pending SignalSet }

// SignalsOf returns what a process does with signals, as it is at one moment; nothing if it has
// ended, or where the kernel does not say it.
func SignalsOf(pid int) (s Signals) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(status)) {
		for key, set := range map[string]*SignalSet{"SigBlk:": &s.Blocked, "SigIgn:": &s.Ignored, "SigCgt:": &s.Caught, "SigPnd:": &s.Pending, "ShdPnd:": &s.Pending} {
			if words, is := strings.CutPrefix(line, key); is {
				mask, _ := strconv.ParseUint(strings.TrimSpace(words), 16, 64) // an error gives none
				*set |= SignalSet(mask)
			}
		}
	}
	return s
}

// PendingOf returns the signals that a thread is to get, without those that it blocks; ok is false
// if it has ended.
func PendingOf(tid int) (s SignalSet, ok bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, false
	}
	var blocked SignalSet
	for line := range strings.Lines(string(status)) {
		key, words, _ := strings.Cut(line, ":")
		switch key {
		case "State":
			ok = !strings.HasPrefix(strings.TrimSpace(words), "X") && !strings.HasPrefix(strings.TrimSpace(words), "Z")
		case "SigPnd", "ShdPnd":
			mask, _ := strconv.ParseUint(strings.TrimSpace(words), 16, 64)
			s |= SignalSet(mask)
		case "SigBlk":
			mask, _ := strconv.ParseUint(strings.TrimSpace(words), 16, 64)
			blocked = SignalSet(mask)
		}
	}
	return s &^ blocked, ok
}

// Children lists the child processes of a process's main thread; ok is false
// where the kernel does not list them (CONFIG_PROC_CHILDREN).
func Children(pid int) (pids []int, ok bool) {
	p := strconv.Itoa(pid)
	return childrenIn("/proc/" + p + "/task/" + p + "/children")
}

// AllChildren lists the child processes of all threads of a process.
func AllChildren(pid int) (pids []int) {
	pids, _ = SomeChildren(pid, -1)
	return pids
}

// SomeChildren lists the child processes of at most most threads of a process, of all if most is
// negative, and returns how many threads these are.
func SomeChildren(pid, most int) (pids []int, threads int) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	if most == 0 {
		return nil, 0
	}
	dir, err := os.Open(tasks)
	if err != nil { // the process has ended
		return nil, 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(most)
	for _, name := range names {
		some, _ := childrenIn(tasks + name + "/children") // nor has a thread
		pids = append(pids, some...)
	}
	return pids, len(names)
}

func childrenIn(file string) (pids []int, ok bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	for f := range bytes.FieldsSeq(b) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			pids = append(pids, n)
		}
	}
	return pids, true
}

// CheckDir returns why a process cannot have dir as its working directory, or nil.
func CheckDir(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}

// CommandLine returns the arguments of a process with spaces between, at most so many bytes of them
// (proc_pid_cmdline(5)); empty if it is unknown. The process chose them.
func CommandLine(pid, most int) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, int64(most)))
	return string(bytes.ReplaceAll(bytes.TrimRight(b, "\x00"), []byte{0}, []byte{' '}))
}
