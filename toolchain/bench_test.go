package toolchain

import (
	"os"
	"testing"
)

func BenchmarkFind(b *testing.B) {
	h := &Host{FS: os.DirFS("/"), Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Getenv: os.Getenv}
	b.ReportAllocs()
	for b.Loop() {
		Find(h)
	}
}
