package shim

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/inside"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// reach returns the network of the sandbox, the same one each time. The main goroutine calls
// it, once PID 1's stream is relayed.
func (s *shim) reach() (inside.Network, error) {
	if s.network != nil {
		return s.network, nil
	}
	conn, err := s.self()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "connect the shim to PID 1: %w", err)
	}
	go func() { // ends with PID 1's stream
		<-s.over
		_ = conn.Close() // else requests would wait for PID 1 without end
	}()
	s.network = s.networkOver(inside.Relayed(conn))
	return s.network, nil
}

// networkOver returns the network of a sandbox whose PID 1 makes sockets as relayed. Where the
// host's kernel is the sandbox's too, the shim makes them itself in the sandbox's network
// namespace, but for unix sockets.
func (s *shim) networkOver(relayed inside.Network) inside.Network {
	if s.boot.OwnKernel || s.boot.Engine != "" {
		return relayed
	}
	if s.boot.Config.Network == runtime.NetworkHost {
		return inside.Host(relayed)
	}
	pid := initOf(s.inst.PID)
	if pid == 0 {
		return relayed
	}
	direct, err := inside.Direct(pid, relayed)
	if err != nil { // PID 1 does the same, only slower
		fmt.Fprintln(os.Stderr, "network of the sandbox:", err)
		return relayed
	}
	return direct
}

// self makes the shim a client of its own.
func (s *shim) self() (*client.Conn, error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]*boot.Socket
	for i := range fd {
		file := os.NewFile(uintptr(fd[i]), "self")
		conn, cerr := net.FileConn(file)
		_ = file.Close()
		if cerr != nil {
			err = cerr
			continue
		}
		if ends[i], cerr = boot.NewSocket(conn.(*net.UnixConn)); cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		for _, end := range ends {
			if end != nil {
				_ = end.Close()
			}
		}
		return nil, err
	}
	s.attach(ends[0], true)
	return client.New(ends[1]), nil
}
