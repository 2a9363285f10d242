package runtime

import "crypto/rand"

// NewID returns a random sandbox id, of 62 bits, for a caller that has to know the id before
// Create.
func NewID() string {
	const set = lower + digits
	id := make([]byte, 0, 12)
	for b := make([]byte, 16); ; {
		_, _ = rand.Read(b) // never fails (crypto/rand)
		for _, x := range b {
			if x < 252 { // 7*36: all are equally likely
				id = append(id, set[x%36])
			}
			if len(id) == 12 {
				return string(id)
			}
		}
	}
}
