// Package egress is the contract of the shim with what filters the network of a sandbox by names:
// package gateway. The shim of another sandbox is a program without that package, which would take
// a third of its start to initialise.
package egress

import (
	"context"
	"net/netip"

	"wolffia/internal/host/inside"
	"wolffia/network"
)

// A Filter is the network of one sandbox. It is safe for concurrent use. The owner calls Close.
type Filter interface {
	// SetPolicy replaces the policy; nil allows nothing. When it returns, the new policy is in
	// force. On an error the policy is the old one.
	SetPolicy(*network.Compiled) error
	// Reached returns NAME:PORT of the hosts that it has connected to, sorted, some hundred at most.
	Reached() []string
	// Traffic returns how many bytes it has carried to the outside, and from there.
	Traffic() (sent, received int64)
	Close() error
}

// A Config is what a Filter needs.
type Config struct {
	Network inside.Network    // of the sandbox; the Filter does not close it
	Policy  *network.Compiled // nil allows nothing
	Exposed []uint16          // ports at which others listen inside at 127.0.0.1: exposed and published ones
	// LowPorts leaves ports below 1024 to servers inside, as higher ones: a sandbox with root inside
	// has servers there. A connection to such a port of an address without a name is then refused
	// without an event.
	LowPorts bool
	// Ask waits until somebody answers whether the connection of an event may be made, or ctx ends,
	// and reports whether it may. It is safe for concurrent use; nil: nobody is asked.
	Ask func(ctx context.Context, e Event) bool
	// receives each event; it must not block, and is safe for concurrent use; nil: none
	Event func(Event)
	// Process returns the process inside that has a socket, by its ends as the process sees them,
	// for events; 0 and "" if it is not known. It is called at most 32 times a second, after a
	// first 64, and by one goroutine at a time. nil: never known.
	Process func(local, remote netip.AddrPort) (pid int, program string)
}

// A Start starts a Filter, which serves until Close, or until ctx ends: then Close is still to be
// called.
type Start func(ctx context.Context, c *Config) (Filter, error)
