package local_test

import (
	"context"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// opensVariable has this program be one of Go that opens the path it names while it signals its own
// thread, as its runtime does for a preemption.
const opensVariable = "WOLFFIA_TEST_OPENS"

// openSignalled is that program.
func openSignalled(path string) int {
	goruntime.GOMAXPROCS(4)
	threads := make(chan int)
	for range 2 { // work that is preempted
		go func() {
			for n := 0; ; n++ {
				if n == 0 {
					goruntime.GC()
				}
			}
		}()
	}
	go func() {
		for thread := <-threads; ; time.Sleep(time.Millisecond) {
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		}
	}()
	goruntime.LockOSThread()
	threads <- unix.Gettid()
	f, err := os.Open(path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	text, err := io.ReadAll(f)
	fmt.Print(string(text))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A program of Go, whose runtime interrupts the wait again and again, is asked about once, and gets
// the answer.
func TestGoProgramIsAskedAbout(t *testing.T) {
	a := askFiles(t, false)
	d, err := a.rt.Inspect(t.Context(), a.id)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.CodebasePath, "opens", string(self))
	if err := os.Chmod(d.CodebasePath+"/opens", 0o755); err != nil {
		t.Fatal(err)
	}
	for i, allow := range []bool{true, false} {
		done := make(chan string, 1)
		ctx, end := context.WithTimeout(context.Background(), wait.Limit)
		go func() {
			defer end()
			r, err := a.rt.Exec(ctx, a.id, &runtime.ExecRequest{Command: []string{"./opens"}, Env: map[string]string{opensVariable: "secrets/key"}})
			if err != nil {
				done <- "error: " + err.Error()
				return
			}
			done <- fmt.Sprintf("%s%s%d", r.Stdout, r.Stderr, r.ExitCode)
		}()
		a.asked(t, 1)
		time.Sleep(2 * time.Second) // thousands of signals
		a.answer(t, runtime.Answer{Allow: allow})
		got(t, "the program", done, map[bool]string{true: "secrets/key\n0", false: "open secrets/key: permission denied\n1"}[allow])
		a.mu.Lock()
		if len(a.all) != i+1 {
			t.Errorf("%d questions, want %d: %+v", len(a.all), i+1, a.all)
		}
		a.mu.Unlock()
	}
}
