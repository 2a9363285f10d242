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

// rehearseLimit is how long a rehearsal may take.
const rehearseLimit = 20 * time.Second

// rehearse has a spare answer a request that is like its user's, and run a command: wolffia's own program, which does
// nothing. What is slow for the first time only is over then: pages that are not mapped yet, and what encoding/json
// finds out about each type. Then it starts the shell of the first session, if the spare is to have it. A spare that
// cannot be adopted is of no use.
func (s *shim) rehearse() error {
	conn, err := s.self()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), rehearseLimit)
	defer cancel()
	if err := s.rehearseAdoption(); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "rehearse what a user does: %w", err)
	}
	rehearseCommand(ctx, conn)
	if shell := s.boot.Spare.Shell; shell != nil { // last: a process that starts ends it
		_ = conn.PrepareSession(ctx, &wire.SessionStart{Env: shell.Env, Dir: shell.Dir}) // an image may have no bash
	}
	return nil
}

// rehearseAdoption sends the spare a request by a socket of its own, and reads the answer.
func (s *shim) rehearseAdoption() error {
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
	if err := boot.SendSpare(ends[1], &boot.SpareRequest{Op: boot.OpRehearse, Config: &s.boot.Config}, rules); err != nil {
		return err
	}
	s.welcome(&clientConn{conn: ends[0], own: true})
	answer, _, err := boot.SpareAnswer(ends[1])
	return errors.Join(err, answer.Err())
}

// rehearsed is adopt for a request of the shim's own, which changes nothing.
func (s *shim) rehearsed(req *boot.SpareRequest, rules *os.File) error {
	if err := s.spare.fits(s.boot, req); err != nil {
		return err
	}
	_, err := s.tree.ask(boot.TreeRequest{Op: boot.AskRehearse, Path: s.boot.Run}, rules, boot.AdoptLimit)
	return err
}

// rehearsal is a command of wolffia's own program: it prints the first byte of itself.
var rehearsal = []string{launch.GuestPath, "read", "0", "1", launch.GuestPath}

// rehearseCommand runs wolffia's own program inside, and waits for its end. The sandbox's limits may leave no room for it:
// then the user's first command is slower.
func rehearseCommand(ctx context.Context, conn *client.Conn) {
	p, err := conn.Start(&client.Request{
		StartRequest: wire.StartRequest{Args: rehearsal},
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
