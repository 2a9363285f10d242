// Package proc reads what the kernel tells of processes.
package proc

import (
	"bytes"
	"os"
	"strconv"
)

// A Process is what is in /proc/PID/stat, as far as it is needed; see
// proc_pid_stat(5).
type Process struct {
	PID, Parent, Group, Session int
	Start                       uint64 // in clock ticks since boot
	State                       byte
}

// Dead reports whether the process has ended and waits for its parent to hear
// of it.
func (p *Process) Dead() bool { return p.State == 'Z' || p.State == 'X' }

// Others lists the processes of the namespace whose /proc is mounted, the
// caller left out; nothing where there is no /proc.
func Others() []Process {
	self := os.Getpid()
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // gone since
		}
		if p, ok := parse(pid, stat); ok {
			all = append(all, p)
		}
	}
	return all
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
	var errs [4]error
	p.Parent, errs[0] = strconv.Atoi(string(f[1]))
	p.Group, errs[1] = strconv.Atoi(string(f[2]))
	p.Session, errs[2] = strconv.Atoi(string(f[3]))
	p.Start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	for _, err := range errs {
		if err != nil {
			return Process{}, false
		}
	}
	return p, true
}
