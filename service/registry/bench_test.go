package registry_test

import (
	"fmt"
	"testing"

	"wolffia/service/registry"
)

// A change rewrites the file: what it costs with many sandboxes.
func BenchmarkRegister(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := open(b, b.TempDir())
			var all []registry.Metadata
			for i := range n {
				all = append(all, box(i, owner(i)))
			}
			_, err := r.Reconcile(all)
			ok(b, err)
			for i := 0; b.Loop(); i++ {
				m := all[0]
				m.GitConfigured = i%2 == 0
				ok(b, r.Register(m))
			}
		})
	}
}
