package service

import (
	"context"

	"wolffia/internal/filecall"
	"wolffia/runtime"
)

// A Usage says how busy the machine is, as processes in a sandbox see it. The sandbox can
// forge it.
type Usage struct {
	CPUs     int
	CPU      float64 // per cent of the time of all CPUs, since the last Usage or, of the first one, since boot
	MemTotal uint64  // bytes
	MemUsed  uint64
	// Of files that memory has, and of the file system of /, in bytes.
	MemCache, DiskTotal, DiskUsed uint64
}

// Usage returns at once: it takes one sample.
func (i *Inside) Usage(ctx context.Context) (*Usage, error) {
	r, err := i.Files().Do(ctx, &filecall.Request{Op: filecall.OpHost})
	if err != nil {
		return nil, err
	}
	h := r.Host
	if h == nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the usage of sandbox %s: the reply is damaged", i.box.ID)
	}
	c := i.service.used.of(i.box.ID)
	c.mu.Lock()
	last := c.last
	c.last = h
	c.mu.Unlock()
	busy, total := h.Busy, h.Total
	if last != nil && last.Total < total && last.Busy <= busy {
		busy, total = busy-last.Busy, total-last.Total
	}
	u := &Usage{
		CPUs: h.CPUs, MemTotal: h.MemTotal, MemUsed: h.MemTotal - min(h.MemUnused, h.MemTotal),
		MemCache: h.MemCache, DiskTotal: h.DiskTotal, DiskUsed: h.DiskUsed,
	}
	if total > 0 {
		u.CPU = min(100, 100*float64(busy)/float64(total))
	}
	return u, nil
}

// DiskUsage returns how many bytes of the host's disk the sandbox takes, as far as a second
// suffices to count them.
func (i *Inside) DiskUsage(ctx context.Context) (int64, error) {
	bytes, _, err := i.service.diskUsage(ctx, i.box.ID)
	return bytes, err
}
