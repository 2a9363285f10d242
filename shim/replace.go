package shim

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// A shim that is killed, or breaks down, is replaced by its keeper, if it has
// one: the sandbox goes on, with its sessions and jobs, and what clients were
// waiting for is ended as when their connections are lost. All that a shim has is
// in descriptors, and the keeper has copies of them, of which it reads none; so
// nothing of it ends with the shim, and all of it with both of them.

const (
	// replaceTries is how many shims in a row may live for less than settled
	// before no other takes their place.
	replaceTries = 10
	settled      = time.Second
)

// A spare is what a keeper has for the next shim.
type spare struct {
	self       *os.File // the wolffia program
	lock       *os.File // the shim's part
	alive      *os.File // hangs up when the caller ends
	control    *os.File // the shim's end of the socket to the tree server
	connection *os.File // to PID 1; nil: not started yet
	socket     *os.File // that clients connect to; nil: no shim has been ready yet
}

// spares are the keeper's from its start.
func spares() spare {
	return spare{
		self: os.NewFile(fdSelf, "wolffia"), lock: os.NewFile(fdShimLock, "lock"),
		alive: os.NewFile(fdCaller, "alive"), control: os.NewFile(fdControl, "control"),
	}
}

// close lets go of all, so that nothing that is dead looks alive: PID 1 and the
// tree server end, if there is no shim either, and nobody has the lock.
func (s *spare) close() error {
	return errors.Join(closeFile(s.self), closeFile(s.lock), closeFile(s.alive), closeFile(s.control), closeFile(s.connection), closeFile(s.socket))
}

// A heard says what a keeper has heard from a shim.
type heard struct {
	gone   chan struct{} // closed when the shim is gone, or has asked for the end
	socket *os.File      // that it listens on, once it is ready; to be read when gone is closed
}

// hear listens to a shim; ask is called if it asks for the end.
func hear(shim *os.File, ask func()) *heard {
	h := &heard{gone: make(chan struct{})}
	go func() { // ends with the shim
		defer close(h.gone)
		for buf := make([]byte, maxPacket); ; {
			packet, file, _ := receivePacket(shim, buf)
			switch {
			case file != nil && h.socket == nil:
				h.socket = file
			case len(packet) > 0:
				_ = closeFile(file)
				ask()
				return
			default:
				return
			}
		}
	}()
	return h
}

// hold stays until the sandbox has ended, and sees to it that it has a shim.
func (k *keeper) hold(asked context.Context, ask func(), shim *heard, ended <-chan error) error {
	began := time.Time{}
	for quick := 0; ; {
		select {
		case err := <-ended:
			return err
		case <-asked.Done():
			return nil
		case <-shim.gone:
		}
		if asked.Err() != nil {
			return nil
		}
		if k.spare.socket == nil {
			if k.spare.socket = shim.socket; k.spare.socket == nil {
				return nil // it did not start
			}
		}
		quick++
		if time.Since(began) > settled {
			quick = 0
		}
		if quick == replaceTries {
			return runtime.Errorf(runtime.ErrUnavailable, "its shim ends again and again")
		}
		began = time.Now()
		var err error
		shim, err = k.replace(asked, ask)
		switch {
		case asked.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
}

// replace starts another shim and waits until it is ready, or killed too.
func (k *keeper) replace(asked context.Context, ask func()) (*heard, error) {
	dir, err := statedir.Open(k.boot.StateDir)
	if err != nil {
		return nil, err
	}
	box, b := dir.Box(k.boot.ID), *k.boot
	if !exists(box.ConfigFile()) {
		return nil, runtime.Errorf(runtime.ErrNotFound, "somebody has removed what the state directory has of the sandbox")
	}
	b.Resumed = true
	if b.Lifetime, err = box.Lifetime(&b.Config); err != nil { // which may be another by now
		return nil, err
	}
	if why := box.Expired(b.Lifetime, statedir.Now()); why != "" {
		return nil, over(box, why)
	}
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	_ = k.socket.Close()
	k.socket = ours
	progress, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer progress.Close()
	defer ready.Close()
	files := []*os.File{fdSocket - fdLock: k.spare.socket}
	files[0], files[fdControl-fdLock], files[fdReady-fdLock] = k.spare.lock, k.spare.control, ready
	files[fdAlive-fdLock], files[fdKept-fdLock] = k.spare.alive, theirs
	child, err := spawn(k.spare.self, os.Stderr, []string{"wolffia", "shim", b.ID}, shimNamespaces(&b.Config), &b, files...)
	if err != nil {
		return nil, namespaceError(err)
	}
	_ = errors.Join(theirs.Close(), ready.Close()) // or its end would not show
	shim := hear(ours, ask)
	err = sendPacket(ours, report{Ready: true}, k.spare.connection)
	if err == nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = await(asked, progress, nil)
	}
	if err != nil {
		err = errors.Join(err, child.Kill())
		<-child.Gone()
	}
	if errors.Is(err, errNoWord) {
		err = nil // it was killed: shim.gone says so
	}
	return shim, err
}
