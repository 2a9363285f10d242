package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"wolffia/runtime"
)

// hibernated weighs many sandboxes that hibernate, each with a shell, and times the first answer of
// each.
func (b *bench) hibernated() error {
	return b.inGvisor(func(g *bench, _ string) error { return g.gvisorHibernated(300) })
}

func (b *bench) gvisorHibernated(n int) error {
	ids := make([]string, n)
	errs := make([]error, n)
	slots := make(chan struct{}, 4)
	var all sync.WaitGroup
	each := func(do func(i int) error) error {
		for i := range n {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				errs[i] = do(i)
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}
	defer func() {
		_ = each(func(i int) error { return b.rt.Destroy(b.ctx, ids[i]) })
	}()
	shells := make([]runtime.SessionID, n)
	var sleeps times
	if err := each(func(i int) (err error) {
		if ids[i], err = b.create(); err != nil {
			return err
		}
		s, err := b.rt.CreateSession(b.ctx, ids[i], nil)
		if err == nil {
			shells[i] = s.ID
			err = b.inSession(s.ID, fmt.Sprintf("x=%d", i))
		}
		return err
	}); err != nil {
		return err
	}
	for _, id := range ids {
		d, err := took(func() error { return b.rt.Hibernate(b.ctx, id) })
		if err != nil {
			return err
		}
		sleeps = append(sleeps, d)
	}
	processes, disk := 0, int64(0)
	for _, id := range ids {
		_, parts, err := pssOfTree(id)
		if err != nil {
			return err
		}
		processes += parts
		if err := filepath.WalkDir(filepath.Join(b.state, "sandboxes", id), func(path string, _ fs.DirEntry, err error) error {
			var st syscall.Stat_t
			if err == nil {
				err = syscall.Lstat(path, &st)
			}
			disk += st.Blocks * 512
			return err
		}); err != nil {
			return err
		}
	}
	var wakes times
	for i := range ids {
		d, err := took(func() error { return b.inSession(shells[i], fmt.Sprintf("[ $x = %d ]", i)) })
		if err != nil {
			return err
		}
		wakes = append(wakes, d)
		if err := b.rt.Stop(b.ctx, ids[i]); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.table, "gvisor: %d hibernated sandboxes\t\t%d processes\t\t0\t\n", n, processes)
	fmt.Fprintf(b.table, "gvisor: disk of one of them\t\t%.1f MB\t\t\t\n", float64(disk)/float64(n)/1e6)
	b.row("gvisor: hibernate", sleeps, "")
	b.row("gvisor: first answer of one of them", wakes, "")
	return nil
}
