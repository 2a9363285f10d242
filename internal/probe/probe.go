// Package probe finds out what this host can do, by doing it. It starts a process in a
// user namespace, a program in bubblewrap, asks the engine behind the Docker socket.
// Wolffia doctor and the tests share one list of features, so that they cannot disagree.
//
//	for _, r := range probe.All(ctx) {
//		fmt.Println(r.Feature, r.OK, r.Found, r.Problem)
//	}
//
// Probes change nothing on the host. What a set of facts means is decided by
// functions without I/O, which the tests walk through for hosts unlike this.
package probe

import (
	"context"
	"fmt"
	"time"
)

// A Feature is something a host has, or has not.
type Feature string

// The features. Required by every sandbox of the default runtime are
// UserNamespaces, Bubblewrap, Fuse and Seccomp.
const (
	UserNamespaces Feature = "userns"     // may make user namespaces, and mount in them
	Bubblewrap     Feature = "bwrap"      // bubblewrap is there and works
	Fuse           Feature = "fuse"       // may serve a file system through /dev/fuse
	Seccomp        Feature = "seccomp"    // the kernel filters system calls
	Cgroups        Feature = "cgroups"    // may limit memory, processes and CPU exactly
	Runsc          Feature = "runsc"      // gVisor
	Docker         Feature = "docker"     // an engine answers, Docker's or Podman's
	Fusermount     Feature = "fusermount" // may mount FUSE in the host's namespace
	Landlock       Feature = "landlock"   // the kernel has it; informational
)

// A Result says what a probe found.
type Result struct {
	Feature  Feature `json:"feature"`
	OK       bool    `json:"ok"`
	Required bool    `json:"required"` // by the default runtime
	Found    string  `json:"found"`    // what was found, with versions, on one line; may be empty
	Allows   string  `json:"allows"`   // what it is good for
	Problem  string  `json:"problem"`  // why it does not work; with OK a warning; else empty
	Fix      string  `json:"fix"`      // the commands that cure Problem, one on each line; may be empty
}

// timeout bounds the probes of All.
const timeout = 5 * time.Second

// A feature is how one Feature is probed.
type feature struct {
	name     Feature
	required bool
	allows   string
	probe    func(context.Context, *host) Result // fills in the rest
}

// features is the list, in the order of All.
func features() []feature {
	return []feature{
		{UserNamespaces, true, "sandboxes without root, and mounts in them", probeUserNS},
		{Bubblewrap, true, "the default runtime", probeBubblewrap},
		{Fuse, true, "the filtered view of a codebase", probeFuse},
		{Seccomp, true, "the filter of system calls in every sandbox", probeSeccomp},
		{Cgroups, false, "exact limits of memory, processes and CPU", probeCgroups},
		{Runsc, false, "the runtime gvisor", probeRunsc},
		{Docker, false, "--runtime docker", probeDocker},
		{Fusermount, false, "a user's filtered codebase with --runtime docker", probeFusermount},
		{Landlock, false, "nothing that wolffia needs", probeLandlock},
	}
}

// Features returns all features, in a fixed order.
func Features() []Feature {
	var all []Feature
	for _, f := range features() {
		all = append(all, f.name)
	}
	return all
}

// All probes every feature, all at the same time, and returns the results in
// the order of Features. It takes at most a few seconds, less if ctx ends.
func All(ctx context.Context) []Result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := thisHost()
	list := features()
	pending := make([]<-chan Result, len(list))
	for i, f := range list {
		pending[i] = f.start(ctx, h)
	}
	results := make([]Result, len(list))
	for i := range list {
		results[i] = <-pending[i]
	}
	return results
}

// Check probes one feature, until ctx ends; one that does not exist is not OK.
func Check(ctx context.Context, name Feature) Result {
	for _, f := range features() {
		if f.name == name {
			return <-f.start(ctx, thisHost())
		}
	}
	return Result{Feature: name, Problem: fmt.Sprintf("there is no feature %q", name)}
}

// start runs the probe and sends one result, when ctx ends whatever the probe does.
func (f feature) start(ctx context.Context, h *host) <-chan Result {
	done := make(chan Result, 1) // so that a late probe can end
	go func() { done <- f.probe(ctx, h) }()
	out := make(chan Result, 1)
	go func() { // ends with the probe or with ctx
		var r Result
		select {
		case r = <-done:
		case <-ctx.Done():
			r = Result{Problem: fmt.Sprintf("it did not answer: %v", context.Cause(ctx))}
		}
		r.Feature, r.Required, r.Allows = f.name, f.required, f.allows
		out <- r
	}()
	return out
}
