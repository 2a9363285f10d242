package stream

import "testing"

func TestRangeOf(t *testing.T) {
	for header, want := range map[string]ByteRange{
		"bytes=0-0": {0, 1, true}, "bytes=5-": {5, -1, true}, "bytes=-5": {-5, -1, true}, "bytes=1-10": {1, 10, true},
		"": {0, -1, false}, "bytes=": {0, -1, false}, "bytes=-": {0, -1, false}, "bytes=-0": {0, -1, false}, "bytes=5-4": {0, -1, false}, "bytes=a-b": {0, -1, false}, "bytes=0-1,3-4": {0, -1, false}, "lines=1-2": {0, -1, false},
		"bytes=99999999999999999999-": {0, -1, false}, "bytes=+1-2": {0, -1, false}, "bytes= 1-2": {0, -1, false},
	} {
		if got := RangeOf(header); got != want {
			t.Errorf("%q: %+v, want %+v", header, got, want)
		}
	}
}
