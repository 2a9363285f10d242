package cause

import (
	"errors"
	"slices"
	"strings"
	"syscall"
)

// A Symptom is what fails.
type Symptom string

// The symptoms.
const (
	Namespaces Symptom = "namespaces" // a user namespace is refused, or its ids
	Full       Symptom = "full"       // there are too many user namespaces
	NoKernel   Symptom = "kernel"     // the kernel says that it has no user namespaces
	Mounts     Symptom = "mounts"     // mounts in a user namespace are refused
	Proc       Symptom = "proc"       // a new /proc is refused
	ProcFiles  Symptom = "procfiles"  // /proc lacks files
	Pivot      Symptom = "pivot"      // a new root is refused
	Loopback   Symptom = "loopback"   // the loopback of a network namespace cannot be set up
	Cgroups    Symptom = "cgroups"    // there are no cgroup namespaces
	SetuidOnly Symptom = "setuid"     // bubblewrap does not run setuid
	Option     Symptom = "option"     // bubblewrap does not know an option
	NoBwrap    Symptom = "bwrap"      // bubblewrap is not installed
	Fuse       Symptom = "fuse"       // /dev/fuse cannot be used
	NoSeccomp  Symptom = "seccomp"    // the kernel has no filters
	State      Symptom = "state"      // the state directory cannot be used, or has a risk
	Codebase   Symptom = "codebase"   // none: where a codebase is
)

// texts are parts of errors, in lower case, with the symptoms that they are of. The first that
// fits counts.
var texts = []struct {
	text    string
	symptom Symptom
}{
	{"state directory", State},
	{"setuid use of bubblewrap is not supported", SetuidOnly},
	{"unknown option --", Option},
	{"bubblewrap is not installed", NoBwrap},
	{"new cgroup namespace", Cgroups},
	{"does not support user namespaces", NoKernel},
	{"new namespace failed: no space left", Full},
	{"user namespaces: no space left", Full},
	{"new namespace", Namespaces},
	{"allow user namespaces", Namespaces},
	{"uid map", Namespaces},
	{"uid_map", Namespaces},
	{"rtm_newaddr", Loopback},
	{"can't mount proc on", Proc},
	{"mount /proc: operation not permitted", Proc},
	{"overflowuid", ProcFiles},
	{"/proc/sys: no such file", ProcFiles},
	{"boot_id: no such file", ProcFiles},
	{"pivot_root", Pivot},
	{"/dev/fuse", Fuse},
	{"failed to make / slave", Mounts},
	{"failed to mount tmpfs: permission denied", Mounts},
	{"failed to mount tmpfs: operation not permitted", Mounts},
	{"can't remount", Mounts},
	{"can't bind mount", Mounts},
	{"avc: ", Mounts},
}

// symptomOf returns the symptom of an error's text; empty if it is unknown.
func symptomOf(said string) Symptom {
	said = strings.ToLower(said)
	for _, t := range texts {
		if strings.Contains(said, t.text) {
			return t.symptom
		}
	}
	return ""
}

// OfStart returns the symptom of the error of starting a process in a new user namespace.
func OfStart(err error) Symptom {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		return Full
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		return NoKernel
	}
	return Namespaces
}

// says reports whether the error has a text, in any case.
func (f *Facts) says(text string) bool {
	return strings.Contains(strings.ToLower(f.Said), strings.ToLower(text))
}

// refused reports whether the error is that of somebody who may not.
func (f *Facts) refused() bool {
	return f.says("not permitted") || f.says("permission denied") || f.says("no permissions")
}

// is reports whether the symptom is one of these.
func (f *Facts) is(symptoms ...Symptom) bool { return slices.Contains(symptoms, f.Symptom) }

// byBwrap reports whether it is bubblewrap that has failed, not wolffia's own part before it.
func (f *Facts) byBwrap() bool { return f.says("bwrap: ") }

// broken reports whether something has failed that every sandbox needs.
func (f *Facts) broken() bool { return f.Symptom != "" && !f.is(State, Codebase) }
