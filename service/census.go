package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"wolffia/runtime"
	"wolffia/service/meter"
	"wolffia/service/registry"
)

// An OwnerUsage is what an owner has of a service at one moment.
type OwnerUsage struct {
	registry.Owner
	Sandboxes int `json:"sandboxes"`
	Running   int `json:"running"`
	// Memory and Disk are the sums of the sandboxes' limits, in bytes; those without one count as
	// 0.
	Memory int64 `json:"memory"`
	Disk   int64 `json:"disk"`
	// MemoryUsed and DiskUsed are what they use, in bytes: memory as far as control groups count
	// it, disk as the state directory has it.
	MemoryUsed int64 `json:"memoryUsed"`
	DiskUsed   int64 `json:"diskUsed"`
	// Incomplete says that the disk in use is more, since counting it takes too long.
	Incomplete bool `json:"incomplete,omitempty"`
	// CreatedAt is when the oldest one was created, and UsedAt when a call was last about one,
	// since the service was started: ms since 1970; 0: none was.
	CreatedAt int64 `json:"createdAt"`
	UsedAt    int64 `json:"usedAt"`
}

// How long the files of one sandbox, and those of all, may be counted: they may be millions.
const (
	countOne = time.Second
	countAll = 20 * time.Second
)

// Owners returns what each owner has that the caller may use, sorted. Sandboxes without an owner
// are in none.
func (s *Service) Owners(ctx context.Context, caller Caller) ([]OwnerUsage, error) {
	all, err := s.all(ctx, caller)
	if err != nil {
		return nil, err
	}
	counting, end := context.WithTimeout(ctx, countAll)
	defer end()
	sum := map[registry.Owner]*OwnerUsage{}
	for _, b := range all {
		if b.Owner == (registry.Owner{}) {
			continue
		}
		o := sum[b.Owner]
		if o == nil {
			o = &OwnerUsage{Owner: b.Owner, CreatedAt: b.CreatedAt.UnixMilli()}
			sum[b.Owner] = o
		}
		o.Sandboxes++
		o.Memory, o.Disk = o.Memory+b.Resources.Memory, o.Disk+b.Resources.Disk
		o.CreatedAt, o.UsedAt = min(o.CreatedAt, b.CreatedAt.UnixMilli()), max(o.UsedAt, s.usedAt.of(b.ID))
		disk, all, err := s.diskUsage(counting, b.ID)
		if err != nil && runtime.Class(err) != runtime.ErrNotFound { // else it was destroyed meanwhile
			return nil, err
		}
		o.DiskUsed, o.Incomplete = o.DiskUsed+disk, o.Incomplete || !all && err == nil
		if !b.State.Runs() {
			continue
		}
		o.Running++
		if l := s.rt.Limits(b.ID); l != nil {
			o.MemoryUsed += l.MemoryUsed
		}
	}
	var owners []OwnerUsage
	for _, o := range sum {
		owners = append(owners, *o)
	}
	slices.SortFunc(owners, func(a, b OwnerUsage) int { return registry.Compare(a.Owner, b.Owner) })
	return owners, nil
}

// diskUsage is that of the runtime, with a limit of its own.
func (s *Service) diskUsage(ctx context.Context, id string) (bytes int64, all bool, err error) {
	ctx, end := context.WithTimeout(ctx, countOne)
	defer end()
	return s.rt.DiskUsage(ctx, id)
}

// Census returns what is known now of all sandboxes.
func (s *Service) Census(ctx context.Context) ([]meter.Sandbox, error) {
	all, err := s.List(ctx, Caller{All: true})
	if err != nil {
		return nil, err
	}
	var known []meter.Sandbox
	usage := s.rt.Usage(ctx)
	for _, b := range all {
		now := meter.Sandbox{Sandbox: b.Sandbox, Owner: b.Owner}
		if b.State.Runs() {
			now.Limits, now.Usage = s.rt.Limits(b.ID), usage[b.ID]
		}
		known = append(known, now)
	}
	return known, nil
}

// usedAt has when calls were last about sandboxes, by id: ms since 1970. The zero value is ready to
// use.
type usedAt struct{ at sync.Map }

func (u *usedAt) now(id string) { u.at.Store(id, time.Now().UnixMilli()) }

func (u *usedAt) of(id string) int64 {
	at, _ := u.at.Load(id)
	ms, _ := at.(int64)
	return ms
}

func (u *usedAt) forget(id string) { u.at.Delete(id) }
