package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"wolffia/wire"
)

// A slow is a sink that takes so many bytes at once, and in all when it is let.
type slow struct {
	mu     sync.Mutex
	now    int // bytes that Try may still take; guarded by mu
	got    bytes.Buffer
	let    chan struct{} // closed: Write continues
	closed bool
}

func (s *slow) Try(b []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(b), s.now)
	s.now -= n
	s.got.Write(b[:n])
	return n
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errors.New("closed")
	}
	return s.got.Write(b)
}

func (s *slow) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// No sender waits, wherever the sink stops to take bytes, and the frames arrive in order and whole.
func TestOutbox(t *testing.T) {
	const n = 100
	for room := range 3 * (wire.HeaderSize + 4) {
		to := &slow{now: room, let: make(chan struct{})}
		sent := 0
		o := wire.NewOutbox(to, func(*wire.Frame) { sent++ })
		over := make(chan struct{})
		go func() {
			o.Run()
			close(over)
		}()
		w := wire.NewOutboxWriter(o)
		for i := range uint32(n) {
			payload := binary.LittleEndian.AppendUint32(nil, i)
			if i%2 == 0 {
				if err := w.Send(wire.Stdout, i+1, payload); err != nil {
					t.Fatal(err)
				}
				continue
			}
			f := wire.NewFrame(wire.Stdout, i+1)
			f.SetLen(copy(f.Room(), payload))
			o.Put(f)
		}
		close(to.let)
		o.Flush()
		idle := false
		o.Idle(func() { idle = true })
		o.Close()
		<-over
		if sent != n || !idle {
			t.Fatalf("room for %d bytes: %d frames are sent; idle: %v", room, sent, idle)
		}
		r := wire.NewReader(&to.got)
		for i := range uint32(n) {
			f, err := r.Next()
			if err != nil || f.Channel != i+1 || binary.LittleEndian.Uint32(f.Payload()) != i {
				t.Fatalf("room for %d bytes: frame %d: %v", room, i, err)
			}
			f.Release()
		}
	}
}

// An error closes the sink, and what comes after Close is dropped.
func TestOutboxClosed(t *testing.T) {
	to := &slow{let: make(chan struct{}), closed: true}
	close(to.let)
	o := wire.NewOutbox(to, nil)
	over := make(chan struct{})
	go func() {
		o.Run()
		close(over)
	}()
	w := wire.NewOutboxWriter(o)
	_ = w.Send(wire.Stdout, 1, []byte("x"))
	o.Flush()
	o.Close()
	<-over
	_ = w.Send(wire.Stdout, 1, []byte("x"))
	o.Idle(func() { t.Error("it is closed") })
	if to.got.Len() > 0 {
		t.Error("it was written")
	}
}
