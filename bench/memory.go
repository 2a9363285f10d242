package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"wolffia/runtime"
)

// memory compares what keeps memory, and brings it back, with runsc's own checkpoint and restore,
// turn by turn: of an idle sandbox, and of one whose memory has 200 MB that cannot be compressed.
func (b *bench) memory() error {
	return b.inGvisor(func(g *bench, runsc string) error {
		for _, mb := range []int{0, 200} {
			if err := g.gvisorMemory(runsc, mb); err != nil {
				return err
			}
		}
		return nil
	})
}

// A turn is measured, but for then; nil: nothing.
type turn struct {
	to       *times
	do, then func() error
}

// gvisorMemory is memory for sandboxes with so much in memory.
func (b *bench) gvisorMemory(runsc string, mb int) error {
	const rounds, warm = 20, 2
	var boxes [2]string // as the peer's first, the first is never restored: what is, is slower to keep
	for i := range boxes {
		var err error
		if boxes[i], err = b.create(); err != nil {
			return err
		}
		defer func() { _ = b.rt.Destroy(b.ctx, boxes[i]) }()
	}
	id, restored := boxes[0], boxes[1]
	peer, err := newContainer(b.ctx, runsc, true)
	if err != nil {
		return err
	}
	defer peer.close()
	fill := []string{"sh", "-c", fmt.Sprintf("head -c %dM /dev/urandom >/tmp/data", mb)}
	if err := cmp.Or(
		b.execIn(id, fill...), b.execIn(restored, fill...), peer.do(append([]string{"exec", "bench"}, fill...)...),
	); err != nil {
		return err
	}
	_, err = b.rt.Snapshot(b.ctx, restored, "one", runtime.SnapshotOptions{Memory: true})
	if err := cmp.Or(err, b.rt.Stop(b.ctx, restored), b.rt.Restore(b.ctx, restored, "one")); err != nil {
		return err
	}
	image := filepath.Join(filepath.Clean(peer.dir), "image")
	var saves, restores, keeps, starts, forks times
	for i := range rounds + warm {
		copied := "restored" + strconv.Itoa(i)
		var fork string
		turns := []turn{
			{&saves, func() error {
				return errors.Join(peer.do("checkpoint", "--image-path="+image, "--leave-running", "bench"), synced(image))
			}, nil},
			{&keeps, func() error {
				_, err := b.rt.Snapshot(b.ctx, id, "one", runtime.SnapshotOptions{Memory: true})
				return err
			}, nil},
			{&restores, func() error {
				return cmp.Or( // what it leaves running would hold a pipe open
					peer.command("restore", "--bundle="+peer.dir, "--image-path="+image, "--detach", copied).Run(),
					peer.do("exec", copied, "true"),
				)
			}, func() error { return peer.do("delete", "--force", copied) }},
			{&starts, func() error {
				return cmp.Or(b.rt.Start(b.ctx, restored), b.execIn(restored, "true"))
			}, func() error { return cmp.Or(b.rt.Stop(b.ctx, restored), b.rt.Restore(b.ctx, restored, "one")) }},
			{&forks, func() error {
				all, err := b.rt.Fork(b.ctx, id, runtime.ForkOptions{Memory: true})
				if err == nil {
					fork = all[0].ID
					err = cmp.Or(b.rt.StartForks(b.ctx, all), b.execIn(fork, "true"))
				}
				return err
			}, func() error {
				return errors.Join(b.rt.Destroy(b.ctx, fork), b.rt.RemoveSnapshot(b.ctx, id, "one"), os.RemoveAll(image))
			}},
		}
		if i%2 == 1 { // the disk is slower for the second
			turns[0], turns[1], turns[2], turns[3] = turns[1], turns[0], turns[3], turns[2]
		}
		for _, turn := range turns {
			d, err := took(turn.do)
			if err == nil && turn.then != nil {
				err = turn.then()
			}
			if err != nil {
				return err
			}
			if i >= warm {
				*turn.to = append(*turn.to, d)
			}
		}
	}
	what := "idle"
	if mb > 0 {
		what = fmt.Sprintf("%d MB", mb)
	}
	bar := func(ours, theirs times) string {
		slices.Sort(ours)
		slices.Sort(theirs)
		return fmt.Sprintf("<= 1.3x that: %.2fx", float64(ours.at(0.5))/float64(theirs.at(0.5)))
	}
	b.row("runsc checkpoint and fsync, "+what, saves, "")
	b.row("gvisor: snapshot with memory, "+what, keeps, bar(keeps, saves))
	b.row("runsc restore and first answer, "+what, restores, "")
	b.row("gvisor: start from memory and first answer, "+what, starts, bar(starts, restores))
	b.row("gvisor: fork with memory and first answer, "+what, forks, "")
	return nil
}

// synced waits until the files of a directory are on the disk, as those of a snapshot are.
func synced(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		f, oerr := os.Open(filepath.Join(dir, e.Name()))
		if oerr == nil {
			oerr = errors.Join(f.Sync(), f.Close())
		}
		err = errors.Join(err, oerr)
	}
	return err
}
