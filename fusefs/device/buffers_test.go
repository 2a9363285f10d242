package device

import "testing"

// Handlers that come and go use the same memory again, but for what large messages have touched.
func TestSpareBuffers(t *testing.T) {
	var s bufferPool
	defer s.close()
	var all []*Buffers
	for range maxIdleBuffers + 2 {
		b, err := s.get()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	all[0].large = true
	for _, b := range all {
		s.put(b)
	}
	for i := range maxIdleBuffers {
		b, err := s.get()
		if err != nil {
			t.Fatal(err)
		}
		if want := all[maxIdleBuffers-i]; b != want {
			t.Errorf("take %d: other memory than was given back", i)
		}
		b.In[0], b.Out[0] = 1, 1 // it is mapped
		defer s.put(b)
	}
	if len(s.idle) != 0 {
		t.Errorf("%d more than %d are kept", len(s.idle), maxIdleBuffers)
	}
}
