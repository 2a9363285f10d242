package console

import (
	"time"

	"wolffia/runtime"
)

// The samples of sandboxes.
const (
	sampleEach = 5 * time.Second
	maxSamples = 360 // of a sandbox
)

// A sample is what a sandbox used at one moment. nil: it is not known.
type sample struct {
	Time     int64    `json:"time"`     // ms since 1970
	Memory   *int64   `json:"memory"`   // bytes
	CPU      *float64 `json:"cpu"`      // processors in use
	Disk     *int64   `json:"disk"`     // bytes
	Received *float64 `json:"received"` // bytes in a second
	Sent     *float64 `json:"sent"`
}

// A history has the samples of one sandbox. The zero value is ready to use.
type history struct {
	samples []sample
	at      time.Time     // of usage
	usage   runtime.Usage // of the last sample
	disk    *int64
}

// add adds a sample of the usage at a time.
func (p *history) add(at time.Time, u runtime.Usage) {
	s := sample{Time: at.UnixMilli(), Disk: p.disk}
	if u.Memory > 0 {
		s.Memory = &u.Memory
	}
	if seconds := at.Sub(p.at).Seconds(); !p.at.IsZero() && seconds > 0 {
		rate := func(now, before int64) *float64 {
			return new(float64(max(0, now-before)) / seconds) // a sandbox that was started again begins anew
		}
		s.CPU = new(max(0, u.CPUTime-p.usage.CPUTime).Seconds() / seconds)
		if u.Counted && p.usage.Counted {
			s.Received, s.Sent = rate(u.Received, p.usage.Received), rate(u.Sent, p.usage.Sent)
		}
	}
	p.at, p.usage = at, u
	if len(p.samples) == maxSamples {
		p.samples = append(p.samples[:0], p.samples[1:]...)
	}
	p.samples = append(p.samples, s)
}

// last returns the last sample if the sandbox still runs: one that is older than two intervals is of
// an earlier start.
func (p *history) last(now time.Time) *sample {
	if p == nil || len(p.samples) == 0 || now.Sub(p.at) > 2*sampleEach {
		return nil
	}
	s := p.samples[len(p.samples)-1]
	return &s
}

func (h *Handler) history(c *call) (any, error) {
	if _, err := h.opts.Service.Get(c.Context(), c.caller, c.id); err != nil {
		return nil, err
	}
	return map[string]any{"seconds": int(sampleEach.Seconds()), "samples": h.hub.samplesOf(c.id)}, nil
}

// histories returns the last samples of all sandboxes of the caller.
func (h *Handler) histories(c *call) (any, error) {
	points, err := c.number("points", 60, 1, maxSamples)
	if err != nil {
		return nil, err
	}
	all, err := h.opts.Service.List(c.Context(), c.caller)
	if err != nil {
		return nil, err
	}
	list := map[string][]sample{}
	for _, b := range all {
		if s := h.hub.samplesOf(b.ID); len(s) > 0 {
			list[b.ID] = s[max(0, len(s)-int(points)):]
		}
	}
	return map[string]any{"seconds": int(sampleEach.Seconds()), "history": list}, nil
}
