package session

import (
	"slices"
	"testing"
)

// A signal reaches the shell of a job before what it waits for.
func TestEldestFirst(t *testing.T) {
	starts := map[int]uint64{12: 7, 9: 8, 11: 7, 3: 9, 10: 8} // 3: numbers begin anew
	for range 20 {                                            // a map has no order
		if got, want := eldestFirst(starts), []int{11, 12, 9, 10, 3}; !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
