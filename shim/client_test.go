package shim

import "testing"

// The list of clients closes for a client that is the only one, and for that only.
func TestCloseFor(t *testing.T) {
	var s clients
	a, b, late := &clientConn{}, &clientConn{}, &clientConn{}
	for _, c := range []*clientConn{a, b} {
		if !s.add(c) {
			t.Fatal("an open list takes no client")
		}
	}
	if s.closeFor(a) {
		t.Fatal("it closed for one of two")
	}
	s.remove(b)
	if s.closeFor(b) {
		t.Fatal("it closed for a client that is gone")
	}
	if !s.closeFor(a) {
		t.Fatal("it did not close for the only one")
	}
	if s.add(late) {
		t.Error("a closed list takes a client")
	}
}
