package runtime

import "crypto/rand"

// NewID returns a random sandbox id: twelve of 36, 62 bits. Runtimes make one
// for whoever asks for none; whoever has to know it beforehand asks for this.
func NewID() string {
	const set = lower + digits
	id := make([]byte, 0, 12)
	for b := make([]byte, 16); ; {
		_, _ = rand.Read(b) // never fails (crypto/rand)
		for _, x := range b {
			if x < 252 { // 7*36: none is more likely than another
				id = append(id, set[x%36])
			}
			if len(id) == 12 {
				return string(id)
			}
		}
	}
}
