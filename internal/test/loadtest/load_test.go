package loadtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// A client is one of many of a service.
type client struct {
	ctx  context.Context
	http *http.Client
	base func() string
}

func (c *client) do(q *http.Request) (*http.Response, string, error) {
	r, err := c.http.Do(q)
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r, string(text), err
}

const (
	clients = 64
	kills   = 2
	// what the service may have more at the end than when it has served for a while
	moreMemory  = 48 << 20
	moreThreads = 40
)

// length is how long each door is used; a variable of the environment may say so, for a trial.
func length() time.Duration {
	if n, err := strconv.Atoi(os.Getenv("WOLFFIA_LOAD_SECONDS")); err == nil {
		return time.Duration(n) * time.Second
	}
	return time.Minute
}

// An outage is a time in which the service did not serve.
type outage struct{ from, to time.Time }

// Many clients use each interface for a minute, in which the service is killed twice. Each gets its
// own answers, and no error but in an outage; the service does not grow.
func TestLoad(t *testing.T) {
	testenv.Soak(t, "a minute of each interface")
	for name, d := range doors {
		t.Run(name, func(t *testing.T) { load(t, d) })
	}
}

func load(t *testing.T, d door) {
	flags, socket := slices.Clone(d.flags), ""
	for n, flag := range flags {
		if flag == "SOCKET" {
			socket = filepath.Join(t.TempDir(), "sock")
			flags[n] = socket
		}
	}
	p := servetest.NewProcess(t, "", flags...)
	if d.image {
		testenv.Busybox(t)
		p.ImportBusybox("busybox:1")
	}
	var mu sync.RWMutex // held while the service is killed and started
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	base := func() string {
		mu.RLock()
		defer mu.RUnlock()
		return "http://" + p.Address
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "docker:80" {
			network, address = "unix", socket
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{p.Ctx, &http.Client{Transport: transport, Timeout: 2 * time.Minute}, base}

	begun, long := time.Now(), length()
	var outages []outage // guarded by mu
	during := func(from, to time.Time) bool {
		mu.RLock()
		defer mu.RUnlock()
		return slices.ContainsFunc(outages, func(o outage) bool { return from.Before(o.to) && to.After(o.from) })
	}
	var rounds, lost atomic.Int64
	stop := make(chan struct{})
	ended := make(chan []error, 1)
	go func() { // ends with stop
		ended <- suite.AtOnce(clients, func(i int) error {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				from := time.Now()
				err := d.round(c, fmt.Sprintf("w%d-%d", i, n))
				switch {
				case err == nil:
					rounds.Add(1)
				case during(from, time.Now()):
					lost.Add(1)
				default:
					return fmt.Errorf("client %d, round %d: %w", i, n, err)
				}
			}
		})
	}()
	for n := range kills {
		time.Sleep(time.Until(begun.Add(long * time.Duration(n+1) / (kills + 2)))) // what the clients do meanwhile is the test
		mu.Lock()
		from := time.Now()
		p.Kill()
		p.Start()
		// a request of before may come back until now
		outages = append(outages, outage{from, time.Now()})
		mu.Unlock()
	}
	time.Sleep(time.Until(begun.Add(long * (kills + 1) / (kills + 2))))
	memory, threads := p.Memory(), p.Threads()
	time.Sleep(time.Until(begun.Add(long)))
	close(stop)
	for _, err := range <-ended {
		if err != nil {
			t.Error(err)
		}
	}
	transport.CloseIdleConnections()
	t.Logf("%d rounds, %d lost in %d outages; memory %d MiB, then %d; threads %d, then %d", rounds.Load(), lost.Load(), kills,
		memory>>20, p.Memory()>>20, threads, p.Threads())
	if rounds.Load() < int64(clients/2) {
		t.Errorf("only %d rounds", rounds.Load())
	}
	if more := p.Memory() - memory; more > moreMemory {
		t.Errorf("the service has %d MiB more", more>>20)
	}
	if more := p.Threads() - threads; more > moreThreads {
		t.Errorf("the service has %d threads more", more)
	}
}
