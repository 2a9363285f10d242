package device

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
)

// handled are handlers that are served, and their device: a socket that keeps messages apart.
type handled struct {
	*testing.T
	handlers
	kernel  int           // the other end of the device
	begun   chan byte     // gets each message that a handler has
	proceed chan struct{} // lets one of them answer
	over    chan struct{} // closed at the end of serve
}

func newHandled(t *testing.T, limit int) *handled {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := &handled{T: t, kernel: pair[1], begun: make(chan byte, 1000), proceed: make(chan struct{}, 1000), over: make(chan struct{})}
	h.fd, h.limit, h.logger = pair[0], limit, slog.New(slog.DiscardHandler)
	h.answer = func(b *Buffers, n int) int {
		if n != 1 {
			t.Errorf("a message of %d bytes", n)
		}
		h.begun <- b.In[0]
		<-h.proceed
		return 0
	}
	go func() { // ends with the other end of the socket
		h.serve()
		close(h.over)
	}()
	t.Cleanup(func() {
		close(h.proceed)
		unix.Close(h.kernel)
		h.awaitOver()
		unix.Close(pair[0])
	})
	return h
}

func (h *handled) awaitOver() {
	h.Helper()
	wait.Receive(h, "the end of serve", h.over)
}

func (h *handled) send(message byte) {
	h.Helper()
	if _, err := unix.Write(h.kernel, []byte{message}); err != nil {
		h.Fatal(err)
	}
}

// has waits until a handler has message.
func (h *handled) has(message byte) {
	h.Helper()
	if got := wait.Receive(h, fmt.Sprintf("message %d at a handler", message), h.begun); got != message {
		h.Fatalf("message %d is handled, want %d", got, message)
	}
}

// settles waits until n handlers are running.
func (h *handled) settles(n int32) {
	h.Helper()
	wait.Equal(h, "running handlers", n, h.running.Load)
}

// A message whose handlers are all blocked gets another one, up to the limit. They end when they
// are not needed any more.
func TestBlockedHandlers(t *testing.T) {
	h := newHandled(t, 3)
	for m := range byte(3) {
		h.send(m)
		h.has(m)
	}
	h.send(3)
	select {
	case m := <-h.begun:
		t.Fatalf("message %d is handled by one more than the limit", m)
	case <-time.After(50 * blockedTime):
	}
	h.settles(3)
	h.proceed <- struct{}{}
	h.has(3)
	for range 3 {
		h.proceed <- struct{}{}
	}
	h.settles(1)
	h.send(4)
	h.has(4)
}

// Messages that come one after the other have one handler, whether it sleeps between them or not.
func TestOneHandler(t *testing.T) {
	h := newHandled(t, MaxHandlers)
	for m := range byte(200) {
		h.proceed <- struct{}{}
		h.send(m)
		h.has(m)
		if m%20 == 0 {
			time.Sleep(2 * spinTime)
		}
	}
	h.settles(1)
}

// Messages that wait get more handlers, and none is lost.
func TestManyMessages(t *testing.T) {
	h := newHandled(t, MaxHandlers)
	const all = 200 // which the socket has room for
	h.send(0)
	h.has(0)
	for m := range byte(all) {
		h.proceed <- struct{}{}
		h.send(m)
	}
	h.proceed <- struct{}{}
	count := [all]int{}
	for range all {
		count[wait.Receive(t, fmt.Sprintf("a message that is missing in %v", count), h.begun)]++
	}
	for m, n := range count {
		if n != 1 {
			t.Errorf("message %d was handled %d times", m, n)
		}
	}
	h.settles(1)
}

// Handlers that are blocked when the device ends are waited for.
func TestEndOfBlockedHandlers(t *testing.T) {
	h := newHandled(t, 2)
	h.send(0)
	h.has(0)
	if err := unix.Shutdown(h.kernel, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.over:
		t.Fatal("serve has ended before an answer")
	case <-time.After(20 * blockedTime):
	}
	h.proceed <- struct{}{}
	h.awaitOver()
}
