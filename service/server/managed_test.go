package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/servetest"
)

// The service listens on the socket that systemd passes, tells it what it does, and leaves the
// socket for the next one.
func TestManaged(t *testing.T) {
	path, config := filepath.Join(t.TempDir(), "sock"), filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	get := func() {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
		}}
		res, err := client.Get("http://wolffia/health")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), "healthy") {
			t.Errorf("/health: %q, %v", text, err)
		}
	}
	for range 2 {
		m := servetest.NewManaged(t, l, "--config", config)
		m.Told("READY=1")
		get()
		m.Told("WATCHDOG=1")
		m.Signal(syscall.SIGHUP)
		m.Told("RELOADING=1")
		m.Told("READY=1")
		m.Signal(syscall.SIGTERM)
		m.Told("STOPPING=1")
		if err := <-m.Stopped; err != nil {
			t.Fatalf("the service: %v\n%s", err, m.Log.String())
		}
	}
	m := servetest.NewManaged(t, l, "--listen", "127.0.0.1:0")
	if err := <-m.Stopped; err == nil || !strings.Contains(m.Log.String(), "systemd has passed a socket") {
		t.Errorf("--listen beside a passed socket: %v\n%s", err, m.Log.String())
	}
}

// A manager that reads nothing of what it is told stops nothing.
func TestManagerThatIgnores(t *testing.T) {
	m := servetest.NewManaged(t, nil, "--listen", "unix:"+filepath.Join(t.TempDir(), "sock"))
	m.Told("READY=1")
	m.Ignore()
	m.Until("the manager's queue is full", func() bool { return strings.Contains(m.Log.String(), "does not read what it is told") })
	m.Signal(syscall.SIGTERM)
	select {
	case err := <-m.Stopped:
		m.OK(err)
	case <-m.Ctx.Done():
		t.Fatalf("the service does not stop\n%s", m.Log.String())
	}
}

// A passed socket that other machines can reach needs keys, as one of --listen.
func TestManagedRemote(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4zero})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := servetest.NewManaged(t, l)
	if err := <-m.Stopped; err == nil || !strings.Contains(m.Log.String(), "needs API keys") {
		t.Errorf("a socket of all addresses without keys: %v\n%s", err, m.Log.String())
	}
}
