package runtime

import (
	"cmp"
	"net"
	"strconv"
	"time"
)

// Refusals are what the network of a sandbox has refused while a command ran: to that command,
// or to another process of the sandbox at the same time. They are known only with
// NetworkFiltered. All texts are printable.
type Refusals struct {
	// List are the different refusals in the order in which each happened first, at least one.
	// It is bounded.
	List []Refusal `json:"list"`
	// More is the number of other refusals, as far as they are known.
	More int `json:"more,omitempty"`
}

// A Refusal is a lookup or a connection that the names of a sandbox's network do not allow, or
// several equal ones.
type Refusal struct {
	// Time is that of the first one.
	Time time.Time `json:"time"`
	// Op is what was asked for: "lookup", "connect" or "proxy".
	Op string `json:"op"`
	// Name is the host's name, Address the address where the program named one. Either may
	// be empty.
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"` // 0: unknown, as for a lookup
	// PID is the process inside as the host numbers it, and Program its name; 0 and empty if
	// they are unknown.
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Reason  string `json:"reason"`
	// Allow is the flag of wolffia run and create that would allow it, such as
	// --allow-host example.com:443; empty if no flag would.
	Allow string `json:"allow,omitempty"`
	// Count is how many equal ones there were, at least 1.
	Count int `json:"count"`
}

// Host returns what the program wanted to reach: the name, or the address, and the port if it is
// known.
func (r *Refusal) Host() string {
	host := cmp.Or(r.Name, r.Address)
	if r.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(r.Port))
}
