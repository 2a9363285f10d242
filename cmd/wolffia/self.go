package main

import (
	"fmt"
	"os"
	"path/filepath"

	"wolffia/internal/host/probe"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/local"
	"wolffia/runtime"
)

// program returns one of the programs that belong to wolffia. The caller closes it.
func program(rt *local.Runtime, name string) (*programs.Program, error) {
	set, err := programs.Open(rt.Binary(), rt.StateDir())
	if err != nil {
		return nil, err
	}
	defer set.Close()
	return set.Program(name)
}

// wolffiaFile returns the file of wolffia that has executed this program as wolffia-serve, which it says
// by its path as the program's name; empty if this program is not wolffia-serve. Then it gives the process
// wolffia's name: no sandbox may be shown the socket of a process of that name (package hostsocket).
func wolffiaFile() (string, error) {
	self, err := os.Executable()
	if err != nil || filepath.Base(self) == "wolffia" || !filepath.IsAbs(os.Args[0]) || filepath.Base(os.Args[0]) != "wolffia" {
		return "", err
	}
	if err := os.WriteFile("/proc/self/comm", []byte("wolffia"), 0); err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "name the process: %w", err)
	}
	return os.Args[0], nil
}

// probeSelf tries what wolffia itself needs beside the host's features: the state directory,
// and the programs that it starts.
func (a *app) probeSelf() []probe.Result {
	state := probe.Result{Feature: "state", Required: true, Allows: "the record of which sandboxes exist"}
	rt, err := a.open("")
	if err == nil {
		err = tryState(rt.StateDir())
	}
	if err != nil {
		state.Problem = err.Error()
		return []probe.Result{state}
	}
	state.OK, state.Found = true, rt.StateDir()
	own := probe.Result{Feature: "programs", Required: true, Allows: "every sandbox: " + programs.Guest + " is PID 1 in it"}
	guest, err := program(rt, programs.Guest)
	if err != nil {
		own.Problem = err.Error()
		return []probe.Result{state, own}
	}
	defer guest.Close()
	for _, name := range []string{programs.Box, programs.Net, programs.Tree} {
		p, err := program(rt, name)
		if err != nil {
			own.Problem = err.Error()
			return []probe.Result{state, own}
		}
		_ = p.Close()
	}
	own.OK = true
	switch {
	case guest.Why != nil:
		own.Found = "carried by " + rt.Binary()
		own.Problem = "each start copies them: " + guest.Why.Error()
	default:
		own.Found = filepath.Dir(guest.Path)
	}
	return append([]probe.Result{state, own}, poolResults(rt.Pools())...)
}

// tryState returns why the state directory cannot keep a new sandbox; nil if it can.
func tryState(path string) error {
	dir, err := statedir.Open(path)
	if err != nil {
		return err
	}
	return dir.Try()
}

// poolResults says of the pools there are whether they could be refilled.
func poolResults(pools []*local.Pool, err error) []probe.Result {
	var all []probe.Result
	for _, p := range pools {
		r := probe.Result{
			Feature: "pool", OK: p.Problem == "", Allows: "sandboxes that were started ahead",
			Found: fmt.Sprintf("%s, %s: %d of %d spares ready", p.Shape, p.Runtime, p.Ready, p.Spares), Problem: p.Problem,
		}
		if !r.OK {
			r.Fix = "wolffia pool stop " + p.Shape + "   # then pool start with its flags, which says what fails"
		}
		all = append(all, r)
	}
	if err != nil {
		all = append(all, probe.Result{Feature: "pool", Problem: err.Error()})
	}
	return all
}
