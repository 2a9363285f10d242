package inside

import (
	"bytes"
	"io"
	"testing"
)

// calls notes the lengths of its calls: a reader that has these bytes, at most so many at a time.
type calls struct {
	*bytes.Reader
	most    int
	buffers []int
	written bytes.Buffer
}

func (c *calls) Read(b []byte) (int, error) {
	c.buffers = append(c.buffers, len(b))
	return c.Reader.Read(b[:min(len(b), c.most)])
}

func (c *calls) Write(b []byte) (int, error) { return c.written.Write(b) }

// Much data is copied in big pieces, little in a small buffer, and the big buffers are given back.
func TestCarry(t *testing.T) {
	data := make([]byte, 10*bigBuffer)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	most := func(c *calls) (biggest int) {
		for _, n := range c.buffers {
			biggest = max(biggest, n)
		}
		return biggest
	}
	run := func(limit int) *calls {
		t.Helper()
		c := &calls{Reader: bytes.NewReader(data), most: limit}
		n, err := carry(&c.written, struct{ io.Reader }{c})
		if err != nil || n != int64(len(data)) || !bytes.Equal(c.written.Bytes(), data) {
			t.Errorf("%d bytes of %d, %v", n, len(data), err)
		}
		if len(bigBuffers) != 0 {
			t.Errorf("%d big buffers are in use", len(bigBuffers))
		}
		return c
	}
	if c := run(bigBuffer); most(c) != bigBuffer || len(c.buffers) > 13 {
		t.Errorf("buffers of %v", c.buffers)
	}
	if c := run(4000); most(c) != buffer {
		t.Errorf("little data at a time: buffers of up to %d", most(c))
	}
	// A slow sender after a fast one gets a small buffer again.
	c := &calls{Reader: bytes.NewReader(data[:buffer+5000]), most: buffer}
	if _, err := carry(&c.written, struct{ io.Reader }{c}); err != nil || c.buffers[1] != bigBuffer || c.buffers[2] != buffer {
		t.Errorf("buffers of %v, %v", c.buffers, err)
	}
	// There is a bound on big ones.
	for range cap(bigBuffers) {
		bigBuffers <- struct{}{}
	}
	c = &calls{Reader: bytes.NewReader(data), most: bigBuffer}
	if _, err := carry(&c.written, struct{ io.Reader }{c}); err != nil || most(c) != buffer || !bytes.Equal(c.written.Bytes(), data) {
		t.Errorf("buffers of up to %d, %v", most(c), err)
	}
	for range cap(bigBuffers) {
		<-bigBuffers
	}
}
