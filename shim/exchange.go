package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire"
	"wolffia/wire/client"
)

// lastExchangeLimit is how long a sandbox that ends by itself may take to give its changes to the
// tree server.
const lastExchangeLimit = time.Minute

// A replicated is a sandbox with a copy of its codebase, as in a pod, where no tree is mounted. Its
// methods are safe for concurrent use.
type replicated struct {
	dir  string // of the copy, inside
	tree *treeConn
	self func() (*client.Conn, error) // connects to the sandbox
	mu   sync.Mutex                   // held while the copy and the tree server's layers exchange changes
}

// deliver sends a sandbox that starts what its codebase shows. It reports progress to say.
func (c *replicated) deliver(say func(string)) error {
	const what = "send the codebase"
	say(what)
	var sent atomic.Int64
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with the delivery
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say(fmt.Sprintf("%s: %d MB", what, sent.Load()>>20))
			case <-over:
				return
			}
		}
	}()
	err := c.exchange(true, boot.ReviewLimit, &sent)
	step.Reached("codebase sent")
	return err
}

// exchange has the tree server take what the sandbox has changed of its copy, and with send send it
// what it shows otherwise. sent counts the bytes on the way to it; nil: they are not counted.
func (c *replicated) exchange(send bool, limit time.Duration, sent *atomic.Int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, err := c.self()
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	said := new(strings.Builder)
	p, err := conn.Start(&client.Request{
		StartRequest: wire.StartRequest{Args: []string{launch.GuestPath, launch.ReplicaArg, c.dir}, Stdin: true},
		OnStderr: func(b []byte) {
			if said.Len() < 1<<10 {
				said.Write(b)
			}
		},
	})
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "start the program that copies the codebase: %w", err)
	}
	ours, theirs, err := rawsock.Pair()
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, p.Kill()))
	}
	defer theirs.Close()
	tree, err := rawsock.FileSocket(ours)
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, p.Kill()))
	}
	defer tree.Close()
	go func() { // ends with the tree server's end of the connection, or the program
		_, _ = io.Copy(counted{p.Stdin(), sent}, tree)
		_ = p.Stdin().Close()
	}()
	go func() { // ends with the program, whose end the tree server sees
		_, _ = io.Copy(tree, p.Stdout())
		_ = rawsock.CloseWrite(tree)
	}()
	work := boot.Review{Do: boot.ReviewExchange, Send: send}
	_, err = c.tree.ask(boot.TreeRequest{Op: boot.AskReview, Review: &work}, theirs, limit)
	_ = tree.Close()
	_ = theirs.Close()
	status, werr := p.Wait(ctx)
	if err != nil && werr == nil && status.Code != 0 {
		err = fmt.Errorf("%w: the program in the pod ended with code %d: %q", err, status.Code, said)
	}
	return err
}

// A counted counts what is written.
type counted struct {
	w io.Writer
	n *atomic.Int64 // nil: it is not counted
}

// Write implements [io.Writer].
func (c counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.n != nil {
		c.n.Add(int64(n))
	}
	return n, err
}

// review has the tree server do a client's work, on changes that a copy's are among. Then the copy
// gets what it lacks: what was discarded, and what the host has changed since.
func (c *replicated) review(r *boot.Review, answer *os.File) (boot.TreeReply, error) {
	if r.Do == boot.ReviewExchange {
		return boot.TreeReply{}, c.exchange(r.Send, boot.ReviewLimit, nil)
	}
	if err := c.exchange(false, boot.ReviewLimit, nil); err != nil {
		return boot.TreeReply{}, err
	}
	reply, err := c.tree.ask(boot.TreeRequest{Op: boot.AskReview, Review: r}, answer, boot.ReviewLimit)
	if err != nil {
		return reply, err
	}
	serr := c.exchange(true, boot.ReviewLimit, nil)
	if r.Do == boot.ReviewDiscard {
		return reply, serr
	}
	if serr != nil { // the work is done
		fmt.Fprintln(os.Stderr, "send the host's changes to the sandbox:", serr)
	}
	return reply, nil
}

// before calls end, which ends the sandbox; of one with a copy in the background, once the tree
// server has its changes. c may be nil.
func (c *replicated) before(end func()) {
	if c == nil {
		end()
		return
	}
	go func() { // ends within the limit
		defer end()
		if err := c.exchange(false, lastExchangeLimit, nil); err != nil {
			fmt.Fprintln(os.Stderr, "keep the sandbox's changes:", err)
		}
	}()
}
