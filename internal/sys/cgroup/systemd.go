package cgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// startScope has the systemd manager at socket make a transient scope with the processes pid and
// servers. It returns the scope's group, in which the caller may make groups; systemd
// removes it with its last process (systemd.scope(5), org.freedesktop.systemd1(5),
// StartTransientUnit).
func startScope(ctx context.Context, socket, name string, pid int, servers ...int) (path string, err error) {
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) { return dial(ctx, socket) })
	if err != nil {
		return "", err
	}
	defer conn.Close()
	pids := []uint32{uint32(pid)}
	for _, server := range servers {
		pids = append(pids, uint32(server))
	}
	done := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, name, "fail", []dbus.Property{
		dbus.PropDescription("a wolffia sandbox's limits"),
		dbus.PropPids(pids...),
		{Name: "Delegate", Value: godbus.MakeVariant(true)},
		// Removed also after a failure.
		{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
	}, done)
	if err != nil {
		return "", err
	}
	select {
	case result := <-done:
		if result != "done" {
			return "", fmt.Errorf("the systemd job for %s has the result %s", name, result)
		}
	case <-ctx.Done():
		return "", ctx.Err()
	}
	path = pathOf(read("/proc/"+strconv.Itoa(pid)+"/cgroup"), "")
	if filepath.Base(path) != name {
		return "", fmt.Errorf("process %d is in the control group %s, not in %s", pid, path, name)
	}
	return path, nil
}

// dial connects to a manager's own socket, which needs no Hello since it is not a bus.
func dial(ctx context.Context, socket string) (*godbus.Conn, error) {
	sock, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn, err := godbus.NewConn(sock, godbus.WithContext(ctx))
	if err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
