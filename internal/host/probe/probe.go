// Package probe finds out what this host can do, by doing it. It starts a process in a
// user namespace, a program in bubblewrap, asks the engine behind the Docker socket.
// Wolffia doctor and the tests share one list of features, so that they cannot disagree.
//
// Probes change nothing on the host. Each collects facts, and a function without I/O
// decides what they mean, which the tests call with the facts of other hosts.
package probe

import (
	"context"
	"fmt"
	"time"

	"wolffia/internal/host/cause"
)

// A Feature is a feature that a host may have.
type Feature string

// The features. Required by every sandbox of the default runtime are
// UserNamespaces, Bubblewrap, Fuse and Seccomp.
const (
	UserNamespaces Feature = "userns"     // may make user namespaces, and mount in them
	Bubblewrap     Feature = "bwrap"      // bubblewrap is installed and works
	Fuse           Feature = "fuse"       // may serve a file system through /dev/fuse
	Seccomp        Feature = "seccomp"    // the kernel filters system calls
	SubIDs         Feature = "subids"     // may have several users in a sandbox
	Cgroups        Feature = "cgroups"    // may limit memory, processes and CPU exactly
	Runsc          Feature = "runsc"      // gVisor
	Docker         Feature = "docker"     // an engine answers, Docker's or Podman's
	Fusermount     Feature = "fusermount" // may mount FUSE in the host's namespace
	Landlock       Feature = "landlock"   // the kernel has it; informational
)

// A Result is the result of a probe.
type Result struct {
	Feature  Feature `json:"feature"`
	OK       bool    `json:"ok"`
	Required bool    `json:"required"` // by the default runtime
	Found    string  `json:"found"`    // what was found, with versions, on one line; may be empty
	Allows   string  `json:"allows"`   // what needs the feature
	Problem  string  `json:"problem"`  // why it does not work; with OK a warning; may be empty
	// Code is that of Problem, and stays the same: see package cause. It is empty where the problem is
	// not one of the table.
	Code string `json:"code,omitempty"`
	// the commands that solve Problem, one on each line, and comments of a shell; may be empty
	Fix string `json:"fix"`
	// Because is another feature that is not OK either and causes Problem; may be empty.
	Because Feature `json:"because,omitempty"`
}

// timeout bounds the probes of All.
const timeout = 5 * time.Second

// A feature is a Feature with its probe.
type feature struct {
	name     Feature
	required bool
	allows   string
	probe    func(context.Context, *host) Result // fills in the rest
}

// features returns all features, in the order of All.
func features() []feature {
	return []feature{
		{UserNamespaces, true, "sandboxes without root, and mounts in them", probeUserNS},
		{Bubblewrap, true, "the default runtime", probeBubblewrap},
		{Fuse, true, "the filtered view of a codebase", probeFuse},
		{Seccomp, true, "the filter of system calls in every sandbox", probeSeccomp},
		{SubIDs, false, "--root, root inside", probeSubIDs},
		{Cgroups, false, "exact limits of memory, processes and CPU", probeCgroups},
		{Runsc, false, "the runtime gvisor", probeRunsc},
		{Docker, false, "--runtime docker", probeDocker},
		{Fusermount, false, "a user's filtered codebase with --runtime docker", probeFusermount},
		{Landlock, false, "nothing that wolffia needs", probeLandlock},
	}
}

// All probes all features concurrently, and returns the results in the order of features.
// It takes at most five seconds, or until ctx ends.
func All(ctx context.Context) []Result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := cause.This()
	var pending []<-chan Result
	for _, f := range features() {
		pending = append(pending, f.start(ctx, h))
	}
	var results []Result
	for _, p := range pending {
		results = append(results, <-p)
	}
	resolve(results)
	return results
}

// resolve clears Because where that feature is OK.
func resolve(results []Result) {
	ok := map[Feature]bool{}
	for _, r := range results {
		ok[r.Feature] = r.OK
	}
	for i := range results {
		if ok[results[i].Because] {
			results[i].Because = ""
		}
	}
}

// Check probes one feature, at most until ctx ends. It panics if there is no such feature.
func Check(ctx context.Context, name Feature) Result {
	for _, f := range features() {
		if f.name == name {
			return <-f.start(ctx, cause.This())
		}
	}
	panic(fmt.Sprintf("probe: no feature %q", name))
}

// start runs the probe and sends one result, at the latest when ctx ends.
func (f feature) start(ctx context.Context, h *host) <-chan Result {
	done, out := make(chan Result, 1), make(chan Result, 1) // so that a late probe can end
	go func() { done <- f.probe(ctx, h) }()
	go func() { // ends with the probe or with ctx
		var r Result
		select {
		case r = <-done:
		case <-ctx.Done():
			r = Result{Problem: fmt.Sprintf("no answer: %v", context.Cause(ctx))}
		}
		r.Feature, r.Required, r.Allows = f.name, f.required, f.allows
		out <- r
	}()
	return out
}
