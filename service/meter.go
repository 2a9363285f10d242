package service

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"wolffia/runtime"
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

// started counts a sandbox that has started, or failed to.
func (m *Meter) started(d time.Duration, err error) {
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

// ran counts a command that has ended, in a session or not, after d.
func (m *Meter) ran(session bool, d time.Duration, r *runtime.Result) {
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
}

// Write writes the counts in Prometheus' text format, and the sandboxes by state.
func (m *Meter) Write(w io.Writer, sandboxes map[runtime.State]int) error {
	out := bufio.NewWriter(w) // it returns the error at Flush
	head := func(name, kind, help string) {
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	head("wolffia_sandboxes", "gauge", "Sandboxes of owners and of the OpenSandbox API, by state.")
	for _, s := range []runtime.State{runtime.StateCreated, runtime.StateRunning, runtime.StateStopped, runtime.StateDead} {
		fmt.Fprintf(out, "wolffia_sandboxes{state=%q} %d\n", s, sandboxes[s])
	}
	if m != nil {
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
			head(h.name, "histogram", h.help)
			total := uint64(0)
			for i, b := range bounds {
				total += h.of.buckets[i]
				fmt.Fprintf(out, "%s_bucket{le=\"%s\"} %d\n", h.name, decimal(b), total)
			}
			fmt.Fprintf(out, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %s\n%s_count %d\n", h.name, h.of.count, h.name, decimal(h.of.sum), h.name, h.of.count)
		}
		head("wolffia_start_failures_total", "counter", "Sandboxes that could not be created or started.")
		fmt.Fprintf(out, "wolffia_start_failures_total %d\n", m.failed)
		head("wolffia_denials_total", "counter", "Accesses that the rules have denied while commands of the service ran, each path once for a command.")
		fmt.Fprintf(out, "wolffia_denials_total %d\n", m.denials)
	}
	return out.Flush()
}

// A PoolCount is what /metrics says of the pool of a service.
type PoolCount struct {
	Ready   int   // pooled sandboxes that are ready
	Claimed int64 // claims since the pool was started
}

// Write writes the counts in Prometheus' text format.
func (c *PoolCount) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, `# HELP wolffia_pooled_sandboxes Sandboxes that were started ahead, and that no request has claimed.
# TYPE wolffia_pooled_sandboxes gauge
wolffia_pooled_sandboxes %d
# HELP wolffia_pooled_claimed_total Sandboxes that were started ahead, and were claimed.
# TYPE wolffia_pooled_claimed_total counter
wolffia_pooled_claimed_total %d
`, c.Ready, c.Claimed)
	return err
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
