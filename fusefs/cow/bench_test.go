package cow

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"wolffia/runtime"
)

// many makes 5,000 changes of a tree of 20,000 files on the disk, as many of each kind.
func many(b *testing.B) *model {
	m := newModelIn(b, b.TempDir())
	for i := range 20000 {
		dir := m.host(fmt.Sprint("d", i/100))
		if i%100 == 0 {
			m.must(os.Mkdir(dir, 0o755))
		}
		m.must(os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), fmt.Appendf(nil, "%0*d\nfile %d\n", 2000, 0, i), 0o644))
	}
	for i := range 5000 {
		p := fmt.Sprintf("d%d/f%d", i/25, i/25*100+i%25)
		switch i % 4 {
		case 0, 1:
			m.write(p, fmt.Sprintf("%0*d\nchanged %d\n", 2000, 0, i), 0)
		case 2:
			m.remove(p)
		case 3:
			m.write(fmt.Sprintf("d%d/new%d", i/25, i), fmt.Sprintf("%0*d\nnew %d\n", 2000, 0, i), 0o644)
		}
	}
	return m
}

func BenchmarkChanges(b *testing.B) {
	m := many(b)
	for b.Loop() {
		if _, err := m.layers().Changes(runtime.ChangesOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	m := many(b)
	for b.Loop() {
		if err := m.layers().Diff(runtime.DiffOptions{}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		m := many(b)
		b.StartTimer()
		if _, err := m.layers().Apply(runtime.ApplyOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	m := many(b)
	for b.Loop() {
		dir := b.TempDir()
		upper := filepath.Join(dir, "upper")
		m.must(os.Mkdir(upper, 0o700))
		log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o600)
		m.must(err)
		if err := m.layers().Copy(openTestDir(b, upper), log); err != nil {
			b.Fatal(err)
		}
		m.must(log.Close())
	}
}
