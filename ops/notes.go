package ops

import "wolffia/runtime"

// Notes returns, a line each, what the exit code of a command and its time-out do not say of its
// end.
func Notes(r *runtime.Result) (notes []string) {
	add := func(holds bool, text string) {
		if holds {
			notes = append(notes, text)
		}
	}
	add(r.OutOfMemory, "the sandbox reached its limit of memory, and the kernel killed a process in it")
	s := r.Session
	if s == nil {
		return notes
	}
	add(s.WantedTerminal, "the command waited for keys of a terminal, which it does not have, and was ended: "+
		"use an option of the program that asks for nothing")
	add(s.Ended, "the shell has ended with the command: the next command runs in a new one, "+
		"which gets the state back as far as possible")
	add(s.Restored == "partial", "this is a new shell: "+
		"a part of the variables, functions and the working directory of the last one is lost")
	add(s.Restored == "none", "this is a new shell: "+
		"the variables, functions and the working directory of the last one are lost")
	add(s.StatusLost, "the command has ended, but its exit code is unknown")
	return notes
}
