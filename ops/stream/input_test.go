package stream

import (
	"bytes"
	"context"
	"testing"
)

// What is typed arrives in order; it is bounded, and a wait for room ends with the connection.
func TestInput(t *testing.T) {
	const maxInput = 1 << 20
	k := NewInput(maxInput)
	var want, got []byte
	for i := range 10 {
		b := bytes.Repeat([]byte{byte(i)}, maxInput/4)
		want = append(want, b...)
		if err := k.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 {
			b, err := k.Take(t.Context())
			if err != nil || len(b) != maxInput {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			got = append(got, b...)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := k.Put(ended, make([]byte, maxInput)); err == nil {
		t.Error("there is room for more than a message")
	}
	b, err := k.Take(t.Context())
	if got = append(got, b...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, not the %d that were typed; %v", len(got), len(want), err)
	}
	if _, err := k.Take(ended); err == nil {
		t.Error("there is more")
	}
}
