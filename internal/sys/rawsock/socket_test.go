package rawsock

import (
	"io"
	"os"
	"testing"
)

// pair returns two connected Sockets, of which the second polls.
func pair(t *testing.T) (from, to *Socket) {
	t.Helper()
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if from, err = FileSocket(a); err != nil {
		t.Fatal(err)
	}
	if to, err = FileSocket(b); err != nil {
		t.Fatal(err)
	}
	if err := to.Poll(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = from.Close(), to.Close() })
	return from, to
}

// pass writes a text with the writing end of a new pipe, and returns the other end: it ends when no process has the descriptor.
func pass(t *testing.T, from *Socket, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Pass(w)
	if n, err := io.WriteString(from, text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// A Socket that takes descriptors has the last one only.
func TestTakeFiles(t *testing.T) {
	from, to := pair(t)
	to.TakeFiles()
	first, second := pass(t, from, "one"), pass(t, from, "two")
	if _, err := io.WriteString(from, "three"); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, len("onetwothree"))
	if _, err := io.ReadFull(to, text); err != nil || string(text) != "onetwothree" {
		t.Fatalf(`io.ReadFull: got %q, %v; want "onetwothree", nil`, text, err)
	}
	if b, err := io.ReadAll(first); len(b) > 0 || err != nil { // it is closed
		t.Errorf("io.ReadAll: got b %q, err %v; want len(b) <= 0 and err == nil", b, err)
	}
	file := to.Taken()
	if file == nil {
		t.Fatal("no descriptor came")
	}
	if again := to.Taken(); again != nil {
		t.Error("it was taken twice")
	}
	if _, err := io.WriteString(file, "by it"); err != nil {
		t.Error(err)
	}
	_ = file.Close()
	if b, err := io.ReadAll(second); string(b) != "by it" || err != nil {
		t.Errorf(`io.ReadAll: got %q, %v; want "by it", nil`, b, err)
	}
}

// What was written is unread until the other side has all of it.
func TestUnread(t *testing.T) {
	from, to := pair(t)
	if from.Unread() {
		t.Error("nothing was written")
	}
	if _, err := io.WriteString(from, "text"); err != nil {
		t.Fatal(err)
	}
	if !from.Unread() {
		t.Error("it is read before it was")
	}
	if _, err := io.ReadFull(to, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if from.Unread() {
		t.Error("it was read")
	}
}

// Other Sockets take none.
func TestDescriptorsAreDropped(t *testing.T) {
	from, to := pair(t)
	r := pass(t, from, "text")
	if n, err := to.Read(make([]byte, 10)); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if to.Taken() != nil {
		t.Error("a descriptor was taken")
	}
	if b, err := io.ReadAll(r); len(b) > 0 || err != nil {
		t.Errorf("io.ReadAll: got b %q, err %v; want len(b) <= 0 and err == nil", b, err)
	}
}
