package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// receiveAttached waits until the keeper has started PID 1 in its engine, and receives
// the connection to it and, if the engine is near and the shim has a use for it, the directory of
// launch.HandPath.
func (s *shim) receiveAttached(near bool) (*launch.Spec, error) {
	s.step("start it in the engine")
	keeper := os.NewFile(boot.FDKept, "keeper")
	packet, stream, err := boot.ReceivePacket(keeper, make([]byte, boot.MaxPacket))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "receive the connection to the sandbox from the keeper: %w", err)
	}
	if stream == nil {
		return nil, cmp.Or(keeperError(packet), runtime.Errorf(runtime.ErrUnavailable, "the keeper has ended"))
	}
	if near && rootfs.Reached(&s.boot.Config.SandboxConfig) {
		if _, s.net.dir, err = boot.ReceivePacket(keeper, make([]byte, boot.MaxPacket)); s.net.dir == nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "receive the directory of the sandbox's sockets from the keeper: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
	}
	answers := make(keeperAnswers, 4)
	again := make(chan *os.File, 1)
	s.claimed = func(c *statedir.Config) error {
		q := &boot.KeeperRequest{Op: boot.OpActivate, CreatedAt: c.CreatedAt}
		q.Config = &runtime.SandboxConfig{Name: c.Name, Labels: c.Labels, BoundToCaller: c.BoundToCaller}
		return answers.ask(keeper, q)
	}
	return &launch.Spec{ID: s.boot.ID, Config: &s.boot.Config.SandboxConfig, Attached: &launch.Attached{
		Stream: stream,
		Again:  again,
		Wait: func() error {
			defer close(again)
			for {
				packet, file, err := boot.ReceivePacket(keeper, make([]byte, boot.MaxPacket))
				switch {
				case err != nil:
					_ = file.Close()
					return err
				case file != nil:
					select {
					case unused := <-again:
						_ = unused.Close()
					default:
					}
					again <- file
				case !answers.pass(packet):
					return keeperError(packet)
				}
			}
		},
		Pause: func() error {
			err := answers.ask(keeper, &boot.KeeperRequest{Op: boot.OpPause})
			if errors.Is(err, errKeeperSilent) {
				err = errors.Join(err, answers.ask(keeper, &boot.KeeperRequest{Op: boot.OpResume}))
			}
			return err
		},
		Resume: func() error { return answers.ask(keeper, &boot.KeeperRequest{Op: boot.OpResume}) },
		Renew: func(deadline time.Time) error {
			return boot.SendPacket(keeper, boot.KeeperRequest{Op: boot.OpRenew, Deadline: deadline}, nil)
		},
		Kill: func() error {
			err := boot.SendPacket(keeper, boot.KeeperRequest{}, nil)
			if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EAGAIN) {
				return nil // it has ended, or has more such requests than fit into the socket
			}
			return err
		},
	}}, nil
}

// keeperAnswers are the keeper's answers to requests. One request is made at a time.
type keeperAnswers chan boot.Report

// pass passes a packet of the keeper's on, if it is an answer.
func (a keeperAnswers) pass(packet []byte) bool {
	var r boot.Report
	if json.Unmarshal(packet, &r) != nil || r.Step == "" {
		return false
	}
	select {
	case a <- r:
	default: // of requests that were given up
	}
	return true
}

var errKeeperSilent = runtime.Errorf(runtime.ErrUnavailable, "the keeper does not answer within %v", freezeLimit)

// ask sends the keeper a request, and returns its answer.
func (a keeperAnswers) ask(keeper *os.File, q *boot.KeeperRequest) error {
	for len(a) > 0 {
		<-a
	}
	if err := boot.SendPacket(keeper, q, nil); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "ask the keeper to %s the container: %w", q.Op, err)
	}
	limit := time.After(freezeLimit)
	for {
		select {
		case r := <-a:
			if r.Step == q.Op {
				return r.Err()
			}
		case <-limit:
			return errKeeperSilent
		}
	}
}

// keeperError returns the error in the keeper's last packet; nil if it has ended as it
// should.
func keeperError(packet []byte) error {
	var last boot.Report
	switch {
	case len(packet) == 0:
		return runtime.Errorf(runtime.ErrUnavailable, "the keeper ended without a report: see wolffia logs")
	case json.Unmarshal(packet, &last) == nil && last.Ready && last.Error == "":
		return nil
	case last.Error == "":
		return runtime.Errorf(runtime.ErrUnavailable, "the keeper sent a report that is not valid")
	}
	return last.Err()
}
