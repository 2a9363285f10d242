// Package meter counts what a service does, for Prometheus.
package meter

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// A Meter counts what a service does, since it was made. The zero value is ready to use, and
// nil counts nothing. It is safe for concurrent use.
type Meter struct {
	mu       sync.Mutex
	starts   histogram
	failed   uint64 // starts
	execs    histogram
	sessions histogram
	denials  uint64
	refusals uint64 // of the network
	requests map[request]uint64
}

// A request is of a kind of which there are few: neither part is of the client's choice.
type request struct {
	call   string
	status int
}

// bounds are the upper bounds of the buckets of a histogram, in seconds.
var bounds = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600}

// A histogram counts durations.
type histogram struct {
	buckets [len(bounds)]uint64
	count   uint64
	sum     float64
}

func (h *histogram) add(d time.Duration) {
	s := d.Seconds()
	for i, b := range bounds {
		if s <= b {
			h.buckets[i]++
			break
		}
	}
	h.count++
	h.sum += s
}

// Started counts a sandbox that has started, or failed to.
func (m *Meter) Started(d time.Duration, err error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed++
		return
	}
	m.starts.add(d)
}

// Ran counts a command that has ended, in a session or not, after d.
func (m *Meter) Ran(session bool, d time.Duration, r *runtime.Result) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if session {
		m.sessions.add(d)
	} else {
		m.execs.add(d)
	}
	m.denials += uint64(len(r.Denied) + r.DeniedMore) // neither is negative
	m.refusals += uint64(len(r.Refused) + r.RefusedMore)
}

// Answered counts a request. call is the name of a call, or the pattern of a path.
func (m *Meter) Answered(call string, status int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests == nil {
		m.requests = map[request]uint64{}
	}
	m.requests[request{call, status}]++
}

// A family is a metric in Prometheus' text format.
type family struct{ name, kind, help string }

// A page is what /metrics answers. It returns no errors until it is flushed.
type page struct{ *bufio.Writer }

// begin begins a family.
func (p page) begin(f family) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
}

// single writes a family of one value.
func (p page) single(f family, value float64) {
	p.begin(f)
	p.sample(f.name, value)
}

// sample writes a value; labels are names and values in turn.
func (p page) sample(name string, value float64, labels ...string) {
	_, _ = p.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		fmt.Fprintf(p, "%c%s=%q", "{,"[min(i, 1)], labels[i], plain(labels[i+1]))
	}
	if len(labels) > 0 {
		_ = p.WriteByte('}')
	}
	fmt.Fprintf(p, " %s\n", decimal(value))
}

// plain returns text that %q and Prometheus' format write alike.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || !strconv.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

// A Sandbox is what is known of a sandbox now.
type Sandbox struct {
	*runtime.Sandbox
	Owner  registry.Owner       // zero: none
	Limits *runtime.LimitsState // nil: it has none, or does not run
	Usage  runtime.Usage        // zero: it does not run, or it is not known
}

// A Pool is what is known of the pool of a service.
type Pool struct {
	Ready   int   // pooled sandboxes that are ready
	Claimed int64 // claims since the pool was started
}

// Write writes what m has counted, and what there is now, in Prometheus' text format. pool is nil
// if the service has none.
func (m *Meter) Write(w io.Writer, all []Sandbox, pool *Pool) error {
	p := page{bufio.NewWriter(w)}
	m.write(p)
	writeSandboxes(p, all)
	if pool != nil {
		p.single(family{"wolffia_pooled_sandboxes", "gauge", "Sandboxes that were started ahead, and that no request has claimed."}, float64(pool.Ready))
		p.single(family{"wolffia_pooled_claimed_total", "counter", "Sandboxes that were started ahead, and were claimed."}, float64(pool.Claimed))
	}
	return p.Flush()
}

// write writes what was counted.
func (m *Meter) write(p page) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range []struct {
		name, help string
		of         *histogram
	}{
		{"wolffia_start_duration_seconds", "Time to create and start a sandbox.", &m.starts},
		{"wolffia_exec_duration_seconds", "Time of commands with a shell of their own.", &m.execs},
		{"wolffia_session_exec_duration_seconds", "Time of commands in sessions.", &m.sessions},
	} {
		p.begin(family{h.name, "histogram", h.help})
		total := uint64(0)
		for i, b := range bounds {
			total += h.of.buckets[i]
			p.sample(h.name+"_bucket", float64(total), "le", decimal(b))
		}
		p.sample(h.name+"_bucket", float64(h.of.count), "le", "+Inf")
		p.sample(h.name+"_sum", h.of.sum)
		p.sample(h.name+"_count", float64(h.of.count))
	}
	p.single(family{"wolffia_start_failures_total", "counter", "Sandboxes that could not be created or started."}, float64(m.failed))
	p.single(family{"wolffia_denials_total", "counter", "Accesses that the rules have denied while commands of the service ran, each path once for a command."}, float64(m.denials))
	p.single(family{"wolffia_network_refusals_total", "counter", "Connections that the network has refused while commands of the service ran, each name once for a command."}, float64(m.refusals))
	requests := family{"wolffia_requests_total", "counter", "Requests by call and status: 401, 403 and 429 are refused ones."}
	p.begin(requests)
	for _, r := range slices.SortedFunc(maps.Keys(m.requests), func(a, b request) int {
		return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.status, b.status))
	}) {
		p.sample(requests.name, float64(m.requests[r]), "call", r.call, "status", strconv.Itoa(r.status))
	}
}

// states are the states of sandboxes.
var states = []runtime.State{runtime.StateCreated, runtime.StateRunning, runtime.StatePaused, runtime.StateHibernated, runtime.StateStopped, runtime.StateDead}

// writeSandboxes writes what there is now. Sandboxes without an owner have empty labels of one.
func writeSandboxes(p page, all []Sandbox) {
	by := map[runtime.State]int{}
	type owned struct {
		registry.Owner
		state runtime.State
	}
	owners := map[owned]int{}
	for _, b := range all {
		by[b.State]++
		owners[owned{b.Owner, b.State}]++
	}
	total := family{"wolffia_sandboxes", "gauge", "Sandboxes of owners and of the OpenSandbox API, by state."}
	p.begin(total)
	for _, state := range states {
		p.sample(total.name, float64(by[state]), "state", string(state))
	}
	ofOwners := family{"wolffia_owner_sandboxes", "gauge", "Sandboxes by owner and state."}
	p.begin(ofOwners)
	for _, o := range slices.SortedFunc(maps.Keys(owners), func(a, b owned) int {
		return cmp.Or(registry.Compare(a.Owner, b.Owner), cmp.Compare(a.state, b.state))
	}) {
		p.sample(ofOwners.name, float64(owners[o]), append(labelsOf(o.Owner), "state", string(o.state))...)
	}
	for _, g := range gauges {
		p.begin(g.family)
		for _, b := range all {
			b.Limits = cmp.Or(b.Limits, new(runtime.LimitsState))
			if value, known := g.of(&b); known {
				p.sample(g.name, value, append([]string{"sandbox", b.ID}, labelsOf(b.Owner)...)...)
			}
		}
	}
}

// gauges are the metrics of each sandbox. of also says whether the value is known.
var gauges = []struct {
	family
	of func(*Sandbox) (value float64, known bool)
}{
	{
		family{"wolffia_sandbox_created_seconds", "gauge", "When a sandbox was created, in seconds since 1970."},
		func(b *Sandbox) (float64, bool) { return float64(b.CreatedAt.UnixMilli()) / 1000, true },
	},
	{
		family{"wolffia_sandbox_memory_limit_bytes", "gauge", "The limit of a sandbox's memory; a sandbox without one is not listed."},
		func(b *Sandbox) (float64, bool) { return float64(b.Resources.Memory), b.Resources.Memory > 0 },
	},
	{
		family{"wolffia_sandbox_memory_bytes", "gauge", "Memory that a running sandbox uses: of its control group, else what its processes do not share."},
		func(b *Sandbox) (float64, bool) { return float64(b.Usage.Memory), b.Usage.Memory > 0 },
	},
	{
		family{"wolffia_sandbox_cpu_seconds_total", "counter", "Time that a running sandbox has computed."},
		func(b *Sandbox) (float64, bool) { return b.Usage.CPUTime.Seconds(), b.Usage.CPUTime > 0 },
	},
	{
		family{"wolffia_sandbox_sent_bytes_total", "counter", "Bytes from a running sandbox to the hosts of its filtered network."},
		func(b *Sandbox) (float64, bool) { return float64(b.Usage.Sent), b.Usage.Counted },
	},
	{
		family{"wolffia_sandbox_received_bytes_total", "counter", "Bytes to a running sandbox from the hosts of its filtered network."},
		func(b *Sandbox) (float64, bool) { return float64(b.Usage.Received), b.Usage.Counted },
	},
	{
		family{"wolffia_sandbox_oom_kills_total", "counter", "Processes of a running sandbox that the kernel has killed for its memory limit."},
		func(b *Sandbox) (float64, bool) {
			return float64(b.Limits.OOMKills), b.Limits.Memory == runtime.ByCgroup
		},
	},
}

func labelsOf(o registry.Owner) []string {
	return []string{"organization", o.OrganizationID, "project", o.ProjectID, "user", o.UserID}
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
