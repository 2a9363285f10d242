package treeserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/carry"
	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/replica"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// exchange takes what the pod at the other end of passed has changed, and with send sends what the
// tree shows otherwise by then, or all if nothing was sent before. It closes passed.
func (t *treeServer) exchange(passed *os.File, send bool) error {
	defer passed.Close()
	if passed == nil || !rawsock.Is(passed, unix.AF_UNIX, unix.SOCK_STREAM, 0, false) {
		return runtime.Errorf(runtime.ErrInvalid, "a unix stream socket has to come with the request")
	}
	conn, err := rawsock.FileSocket(passed)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.PollAll(); err != nil {
		return err
	}
	late := time.AfterFunc(boot.ReviewLimit, func() { _ = conn.Close() })
	defer late.Stop()
	taking := false
	denied := func(d fusefs.Denial) {
		if taking { // else no program has asked
			t.denied(d)
		}
	}
	b := t.boot
	quota := b.Disk
	if quota == 0 {
		quota = carry.MaxBytes
	}
	tree, err := fusefs.OpenOffline(&fusefs.Options{
		Root: t.root, Rules: t.policy.Load(), Copy: t.copied.options(), Git: gitOptions(t.git, b.Git.Minimal),
		Unguarded: b.Git.Unguarded, MoveTemps: cow.MoveTemps(filepath.Base(filepath.Dir(b.Run))), Owner: treeOwner(b),
		Quota: quota, Memory: treeMemory(b.Memory), Denied: denied,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer tree.Close()
	p := &carry.Pod{
		Tree: tree, Log: t.copied.log, Work: int(t.copied.work.Fd()), Known: t.pod,
		Peer: replica.NewPeer(conn, conn, carry.MaxBytes),
	}
	if t.pod == nil { // there may be a pod of an earlier start
		if !send {
			return nil
		}
		p.Known = carry.Known{}
		if err := p.Adopt(); err != nil {
			return fmt.Errorf("look at the files of the pod: %w", explain(err))
		}
		t.pod = p.Known
	}
	taking = true
	if err := p.Take(); err != nil {
		return fmt.Errorf("take the changes of the pod: %w", explain(err))
	}
	step.Reached("pod: taken")
	taking = false
	if !send {
		return nil
	}
	if err := p.Send(); err != nil {
		return fmt.Errorf("send the codebase to the pod: %w", explain(err))
	}
	return nil
}

// explain says what helps.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EDQUOT), errors.Is(err, replica.ErrTooLarge):
		return fmt.Errorf("%w: the changes may have %d GiB: remove some in the sandbox", err, carry.MaxBytes>>30)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection to the pod has ended")
	}
	return err
}
