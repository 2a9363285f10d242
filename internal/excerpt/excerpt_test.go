package excerpt_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"wolffia/internal/excerpt"
)

// Whatever the pieces, it is the stream with its middle cut out.
func TestExcerpt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		keep := random.IntN(20)
		tail := random.IntN(keep + 1)
		x := excerpt.New(keep, tail)
		var all []byte
		for range random.IntN(6) {
			piece := make([]byte, random.IntN(30))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			all = append(all, piece...)
			if n, err := x.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		want, missing := all, 0
		if len(all) > keep {
			missing = len(all) - keep
			want = append(bytes.Clone(all[:keep-tail]), all[len(all)-tail:]...)
		}
		kept, dropped := x.Result()
		if !bytes.Equal(kept, want) || dropped != int64(missing) {
			t.Fatalf("of %d bytes, %d with %d of the end: %v and %d dropped, want %v and %d", len(all), keep, tail, kept, dropped, want, missing)
		}
	}
}
