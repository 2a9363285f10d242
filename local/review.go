package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rawsock"
	"wolffia/local/conns"
	"wolffia/runtime"
)

// reviews shows, applies, saves and discards the changes of copied codebases.
type reviews struct {
	*catalog
	starter *starter
}

// Changes implements [runtime.Workspace].
func (s *reviews) Changes(ctx context.Context, sandboxID string, o runtime.ChangesOptions) ([]runtime.Change, error) {
	all := []runtime.Change{}
	err := s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewChanges, Paths: bytesOf(o.Paths), Lines: o.Lines}, func(r io.Reader) error {
		return eachValue(r, func(c *runtime.Change) { all = append(all, *c) })
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Diff implements [runtime.Workspace].
func (s *reviews) Diff(ctx context.Context, sandboxID string, o runtime.DiffOptions, w io.Writer) error {
	return s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewDiff, Paths: bytesOf(o.Paths)}, func(r io.Reader) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// Apply implements [runtime.Workspace].
func (s *reviews) Apply(ctx context.Context, sandboxID string, o runtime.ApplyOptions) (*runtime.ApplyResult, error) {
	result := &runtime.ApplyResult{Applied: []runtime.Change{}, Left: []runtime.Change{}}
	work := &boot.Review{Do: boot.ReviewApply, Paths: bytesOf(o.Paths), DryRun: o.DryRun, Force: o.Force}
	for _, h := range o.Hunks {
		work.Do = boot.ReviewHunks
		work.Hunks = append(work.Hunks, boot.Hunks{Path: []byte(h.Path), Digest: h.Digest, Only: h.Only})
	}
	err := s.review(ctx, sandboxID, work, func(r io.Reader) error {
		return eachValue(r, func(a *boot.Applied) {
			if a.Change != nil && a.Done {
				result.Applied = append(result.Applied, *a.Change)
			} else if a.Change != nil {
				result.Left = append(result.Left, *a.Change)
			}
		})
	})
	if err != nil && len(result.Applied)+len(result.Left) == 0 {
		return nil, err
	}
	return result, err
}

// Discard implements [runtime.Workspace].
func (s *reviews) Discard(ctx context.Context, sandboxID string, paths []string) (n int, err error) {
	err = s.review(ctx, sandboxID, &boot.Review{Do: boot.ReviewDiscard, Paths: bytesOf(paths)}, func(r io.Reader) error {
		return eachValue(r, func(count *int) { n = *count })
	})
	return n, err
}

func bytesOf(paths []string) [][]byte {
	var all [][]byte
	for _, p := range paths {
		all = append(all, []byte(p))
	}
	return all
}

// maxChanges bounds the values of an answer. The tree server looks at no more names.
const maxChanges = 1 << 20

// eachValue calls f for each JSON value in r.
func eachValue[T any](r io.Reader, f func(*T)) error {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for range maxChanges {
		v := new(T)
		err := dec.Decode(v)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(v)
	}
	return errors.New("the answer is too long")
}

// review has the tree server of a sandbox do some work, and read read the answer. If the sandbox
// does not run, a tree server is started for the work, which holds the sandbox's lock.
func (s *reviews) review(ctx context.Context, sandboxID string, r *boot.Review, read func(io.Reader) error) error {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return err
	}
	if !c.CopyOnWrite {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox %s works on the host's directory itself: there are no changes to review; create it with --cow", rec.ID())
	}
	size := 0
	for _, p := range r.Paths {
		size += 2*len(p) + 4
	}
	for _, h := range r.Hunks {
		size += 2*len(h.Path) + len(h.Digest) + 21*len(h.Only) + 40
	}
	if size > boot.MaxPacket/2 {
		return runtime.Errorf(runtime.ErrInvalid, "the paths have more than %d bytes together: name fewer at a time, or their directory", boot.MaxPacket/4)
	}
	r.At = boot.DirAt(c.CodebasePath)
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, boot.ReviewLimit)
	defer cancel()
	var answer *rawsock.Socket
	var theirs *os.File
	if r.Answer = read != nil; r.Answer {
		if answer, theirs, err = newAnswer(); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "make a connection for the answer of sandbox %s: %w", rec.ID(), err)
		}
		defer answer.Close()
		// the tree server stops, and its answer is read for a while
		stop := context.AfterFunc(ctx, func() {
			_ = rawsock.CloseWrite(answer)
			time.AfterFunc(boot.ReviewStopLimit, func() { _ = answer.Close() })
		})
		defer stop()
	}
	asked := make(chan error, 1)
	go func() { // ends with the work, or when ctx does
		err := s.askForReview(ctx, rec, r, theirs)
		if ctx.Err() == nil { // else the tree server stops, and says what it has done
			// the answer ends now, also if the request lies with a shim that stands still
			_ = rawsock.CloseWrite(theirs)
		}
		_ = theirs.Close() // nil is fine
		asked <- err
	}()
	var rerr error
	if read != nil {
		rerr = read(answer)
		if rerr != nil {
			_ = answer.Close() // the tree server need not write the rest
		}
	}
	err = <-asked
	if err == nil && rerr != nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "read the answer of sandbox %s: %w", rec.ID(), rerr)
	}
	switch {
	case err != nil && caller.Err() != nil: // what else it is follows from that
		return caller.Err()
	case err != nil && ctx.Err() != nil && runtime.Class(err) == nil:
		return ctx.Err()
	}
	return err
}

// newAnswer returns a connection for an answer, and the end for the tree server. The caller closes
// both.
func newAnswer() (*rawsock.Socket, *os.File, error) {
	ours, theirs, err := rawsock.Pair()
	if err != nil {
		return nil, nil, err
	}
	answer, err := rawsock.FileSocket(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return answer, theirs, nil
}

// askForReview has the tree server of the sandbox, or one that is started, do r, and answer by the
// end of a connection, which stays the caller's.
func (s *reviews) askForReview(ctx context.Context, rec *statedir.Record, r *boot.Review, answer *os.File) error {
	return untilSettled(ctx, func() (done bool, err error) {
		lock, err := rec.TryLock()
		switch {
		case err == nil:
			defer func() {
				_ = lock.Unlock()
				_ = lock.Close()
			}()
			return true, s.reviewStopped(ctx, rec, lock, r, answer)
		case !errors.Is(err, runtime.ErrConflict):
			return true, err
		}
		if state, _, serr := rec.State(); serr != nil || !state.Runs() {
			return serr != nil, errors.Join(err, serr)
		}
		_, err = conns.AskWith(ctx, rec, &boot.Request{Op: boot.OpReview, Review: r}, answer, boot.ReviewLimit)
		return true, ofAnotherVersion(rec, err)
	})
}

// reviewStopped starts a tree server without a mount, and has it do r, as of askForReview. The
// caller holds the lock.
func (s *reviews) reviewStopped(ctx context.Context, rec *statedir.Record, lock *statedir.Lock, r *boot.Review, answer *os.File) error {
	_, c, err := s.find(rec.ID()) // with the lock held it does not change
	if err != nil {
		return err
	}
	set, err := programs.Open(s.wolffia, s.dir.Path())
	if err != nil {
		return err
	}
	defer set.Close()
	program, err := set.Program(programs.Tree)
	if err != nil {
		return err
	}
	defer program.Close()
	log, err := openLog(rec, c)
	if err != nil {
		return err
	}
	defer log.Close()
	ours, theirs, err := boot.ControlPair()
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer ours.Close()
	params, err := s.starter.treeParams(rec, c)
	if err != nil {
		return err
	}
	params.Review = true
	tag, err := rec.Processes().Tag()
	if err != nil {
		return err
	}
	files := []*os.File{boot.FDLock: lock.Tree, boot.FDControl: theirs}
	tree, err := spawn(program.File, log, []string{"wolffia", "tree", tag}, treeCredential(c), params, files)
	_ = theirs.Close()
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "start the tree server: %w", err)
	}
	defer func() {
		_ = unix.Shutdown(int(ours.Fd()), unix.SHUT_WR) // it ends
		if !boot.Within(boot.KillLimit, tree.Gone()) {
			_ = tree.Kill()
			<-tree.Gone()
		}
	}()
	stop := context.AfterFunc(ctx, func() {
		// else it stops by itself
		if answer == nil || !boot.Within(boot.ReviewStopLimit, tree.Gone()) {
			_ = tree.Kill()
		}
	})
	defer stop()
	if err := boot.ReceiveServing(ours); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.ID(), err)
	}
	if err := boot.SendPacket(ours, &boot.TreeRequest{ID: 1, Op: boot.AskReview, Review: r}, answer); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "ask the tree server: %w", err)
	}
	packet, _, err := boot.ReceivePacket(ours, make([]byte, boot.MaxPacket))
	var reply boot.TreeReply
	switch {
	case err == nil && len(packet) == 0 && ctx.Err() != nil:
		return ctx.Err()
	case err == nil && len(packet) == 0:
		err = errors.New("it has ended: see wolffia logs")
	case err == nil:
		err = json.Unmarshal(packet, &reply)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "the tree server does not answer: %w", err)
	}
	return reply.Err()
}
