package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// The host changes the codebase while a sandbox starts over it, all the time.
func TestChangesDuringStart(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := os.WriteFile(filepath.Join(codebase, fmt.Sprint("f", n%8)), []byte("x"), 0o600); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for range 40 {
		id := started(t, rt, codebase)
		if err := rt.Destroy(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
