package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/local"
	"wolffia/runtime"
)

// maxAuto bounds the ports that an Auto forwards: the sandbox chooses the text.
const maxAuto = 8

// serverLimit is how long a server may take to listen after its address was printed.
const serverLimit = 10 * time.Second

// An Auto finds the servers inside whose addresses a command prints. It makes each reachable at a
// port of this host's loopback, or only says how. It is safe for concurrent use.
type Auto struct {
	Forwarder
	Publish bool              // make the servers reachable
	Create  bool              // the flags of this command line describe the sandbox
	Say     func(line string) // prints a line for the user
	ctx     context.Context   //nolint:containedctx // it ends with Close
	cancel  context.CancelFunc
	mu      sync.Mutex
	seen    map[int]bool
	open    []net.Listener
}

// NewAuto returns an Auto for a command in a sandbox. The caller closes it.
func NewAuto(ctx context.Context, h *host.Host, rt *local.Runtime, sb *runtime.Sandbox) *Auto {
	a := &Auto{Forwarder: Forwarder{Host: h, RT: rt, Sandbox: sb}, seen: map[int]bool{}}
	a.refused.Do(func() {}) // no warning: the command's own output says that its server is not up
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return a
}

// Close ends the forwarding.
func (a *Auto) Close() {
	a.cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.open {
		_ = l.Close()
	}
	a.open = nil
}

// Watch returns a writer that passes what it gets on to w, and looks for addresses in it.
func (a *Auto) Watch(w io.Writer) io.Writer { return &watcher{auto: a, w: w} }

// A watcher looks at one stream.
type watcher struct {
	auto *Auto
	w    io.Writer
	rest []byte // the end of what was written last
}

// maxAddress is the longest text of an address with its escape sequences, in bytes.
const maxAddress = 128

// Write implements [io.Writer].
func (o *watcher) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	for _, at := range o.look(b) {
		o.auto.found(at)
	}
	return n, err
}

// look returns the addresses in what is written next. It copies little of it.
func (o *watcher) look(b []byte) (all []address) {
	o.rest = append(o.rest, b[:min(len(b), maxAddress)]...)
	texts := [][]byte{o.rest} // what goes on from one write to the next
	if len(b) > maxAddress {
		texts = append(texts, b)
	}
	for _, text := range texts {
		all = append(all, addresses(text)...)
	}
	last := texts[len(texts)-1]
	o.rest = append(o.rest[:0], last[max(0, len(last)-maxAddress):]...)
	return all
}

// An address is one of a server on the sandbox's own loopback.
type address struct {
	scheme string // empty: the text has none
	port   int
}

// escapes are the sequences by which programs colour parts of an address.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9;]*m") })

// served are texts with the address of a server. What follows the port ends it: a later write may
// go on.
var served = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(https?)://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d{2,5})[^\d]` +
		`|(?i:listening (?:on|at) (?:port |\S*:))()(\d{2,5})[^\d]`)
})

// addresses returns the addresses in a text.
func addresses(text []byte) (all []address) {
	if !bytes.Contains(text, []byte("://")) && !bytes.Contains(text, []byte("istening")) {
		return nil // nearly always
	}
	for _, m := range served().FindAllSubmatch(escapes().ReplaceAll(text, nil), -1) {
		scheme, digits := string(m[1]), m[2]
		if digits == nil {
			digits = m[4]
		}
		if port, err := strconv.Atoi(string(digits)); err == nil && runtime.IsPort(port) {
			all = append(all, address{scheme, port})
		}
	}
	return all
}

// found handles an address once.
func (a *Auto) found(at address) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen[at.port] || len(a.seen) == maxAuto {
		return
	}
	a.seen[at.port] = true
	go a.handle(at) // ends with Close
}

// handle makes a server reachable once it listens, or says how.
func (a *Auto) handle(at address) {
	info, err := a.RT.Inspect(a.ctx, a.Sandbox.ID)
	if err != nil || info.Config.Network == runtime.NetworkHost ||
		slices.ContainsFunc(info.Config.Publish, func(p runtime.Publish) bool { return p.Port == at.port }) ||
		slices.ContainsFunc(info.Config.Expose, func(e runtime.Expose) bool { return e.InsidePort() == at.port }) {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, serverLimit)
	defer cancel()
	waiting := &Forwarder{RT: a.RT, Sandbox: a.Sandbox, Wait: true}
	conn, err := waiting.dial(ctx, at.port)
	if err != nil {
		return
	}
	_ = conn.Close()
	if !a.Publish {
		remedy := fmt.Sprintf("wolffia forward %s %d", a.Sandbox.ID, at.port)
		if a.Create {
			remedy = fmt.Sprintf("add --publish %d:%d", at.port, at.port)
		}
		a.Say(fmt.Sprintf("port %d listens inside the sandbox only: to reach it, %s", at.port, remedy))
		return
	}
	l, err := a.listen(at.port)
	if err != nil {
		a.Say(fmt.Sprintf("port %d of the sandbox: %v", at.port, err))
		return
	}
	where := l.Addr().String()
	if at.scheme != "" {
		where = at.scheme + "://" + where
	}
	a.Say(fmt.Sprintf("port %d of the sandbox is at %s, for every program of this host; --publish none leaves that out",
		at.port, where))
}

// servicePorts are ports at which programs of the host expect a service of their own: no sandbox
// takes its place.
var servicePorts = []int{1433, 1521, 2375, 2376, 3306, 5432, 5672, 6379, 9092, 9200, 11211, 27017}

// listen listens at a port of the loopback: the same as inside, the next free one, or any.
func (a *Auto) listen(port int) (l net.Listener, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	for local := port; ; local++ {
		if local < 1024 || local == port+maxAuto || local > math.MaxUint16 || slices.Contains(servicePorts, local) {
			local = 0
		}
		l, err = a.Listen(a.ctx, &runtime.Publish{Address: "127.0.0.1", Local: local, Port: port})
		if err == nil {
			a.open = append(a.open, l)
		}
		if err == nil || local == 0 {
			return l, err
		}
	}
}
