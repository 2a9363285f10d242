package shim

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire"
	"wolffia/wire/client"
)

// warmUpLimit is how long warming up may take.
const warmUpLimit = 20 * time.Second

// warmUp has a pooled sandbox answer a request like its claimant's, and run a command: wolffia's
// own program, which does nothing. Afterwards pages are mapped, and encoding/json has its tables,
// which slows only the first request. Then it starts the shell of the first session, if the
// sandbox is to have one. A sandbox that fails the request cannot be activated: warmUp returns the
// error.
func (s *shim) warmUp() error {
	conn, err := s.self()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), warmUpLimit)
	defer cancel()
	if err := s.warmUpActivation(); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "warm up the sandbox: %w", err)
	}
	warmUpCommand(ctx, conn)
	if shell := s.boot.Pooled.Shell; shell != nil { // last, since any process that starts ends it
		// an image may have no bash
		_ = conn.PrepareSession(ctx, &wire.SessionStart{Env: shell.Env, Dir: shell.Dir})
	}
	return nil
}

// warmUpActivation sends the sandbox a request by a socket of its own, and reads the answer.
func (s *shim) warmUpActivation() error {
	ends, err := selfPair()
	if err != nil {
		return err
	}
	defer ends[0].Close()
	defer ends[1].Close()
	rules, err := boot.SealedFile([]byte("[]"))
	if err != nil {
		return err
	}
	defer rules.Close()
	if err := boot.SendPooled(ends[1], &boot.PooledRequest{Op: boot.OpWarmUp, Config: &s.boot.Config}, rules); err != nil {
		return err
	}
	s.acceptClaim(&clientConn{conn: ends[0], own: true})
	answer, _, err := boot.ReceivePooledAnswer(ends[1])
	return errors.Join(err, answer.Err())
}

// dryActivate is activate for a request of the shim's own. It changes nothing.
func (s *shim) dryActivate(req *boot.PooledRequest, rules *os.File) error {
	if err := s.pooled.fits(s.boot, req); err != nil {
		return err
	}
	if s.tree == nil {
		return nil
	}
	_, err := s.tree.ask(boot.TreeRequest{Op: boot.AskWarmUp, Path: s.boot.Run}, rules, boot.ActivateLimit)
	return err
}

// warmUpArgs is a command of wolffia's own program: it prints the first byte of itself.
var warmUpArgs = []string{launch.GuestPath, "read", "0", "1", launch.GuestPath}

// warmUpCommand runs wolffia's own program inside, and waits for its end. The sandbox's limits may
// be too low for it: then the claimant's first command is slower.
func warmUpCommand(ctx context.Context, conn *client.Conn) {
	p, err := conn.Start(&client.Request{
		StartRequest: wire.StartRequest{Args: warmUpArgs},
		OnStdout:     func([]byte) {}, OnStderr: func([]byte) {},
	})
	if err == nil {
		_, _ = p.Wait(ctx)
	}
}

// selfPair returns the two ends of a connection of the shim with itself.
func selfPair() (ends [2]*rawsock.Socket, err error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ends, os.NewSyscallError("socketpair", err)
	}
	for i := range fd {
		var cerr error
		if ends[i], cerr = socketOf(fd[i]); cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		for _, end := range ends {
			if end != nil {
				_ = end.Close()
			}
		}
	}
	return ends, err
}
