package main

import (
	"path/filepath"

	"wolffia/internal/probe"
	"wolffia/internal/programs"
	"wolffia/local"
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

// probeSelf tries what wolffia itself needs beside the host's features: the state directory,
// and the programs that it starts.
func (a *app) probeSelf() []probe.Result {
	state := probe.Result{Feature: "state", Required: true, Allows: "the record of which sandboxes exist"}
	rt, err := a.open("")
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
	box, err := program(rt, programs.Box)
	if err != nil {
		own.Problem = err.Error()
		return []probe.Result{state, own}
	}
	defer box.Close()
	own.OK = true
	switch {
	case guest.Why != nil:
		own.Found = "carried by " + rt.Binary()
		own.Problem = "each start copies them: " + guest.Why.Error()
	default:
		own.Found = filepath.Dir(guest.Path)
	}
	return []probe.Result{state, own}
}
